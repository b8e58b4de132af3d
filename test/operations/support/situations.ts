/**
 * Situations and the requests in them. A new operation joins by being registered, if at least one
 * situation and request lead to it; every action that is open in a situation is requested. Add a
 * situation or a request only if the test says that nothing leads to the new operation.
 */
import type { AllocationId } from '../../../src/base/ids.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import { type NodeActionName, nodeActionNames } from '../../../src/lifecycle/actions/actions.ts';
import { type AllocationActionName, allocationActionNames } from '../../../src/lifecycle/actions/allocation-actions.ts';
import type { ActionRequest } from '../../../src/operations/actions/action.ts';
import { actOnAllocation } from '../../../src/operations/actions/allocation-actions.ts';
import { actOnNode } from '../../../src/operations/actions/node-actions.ts';
import { requestRecovery } from '../../../src/operations/recovery/recovery-request.ts';
import { requestRelease } from '../../../src/operations/release/release-requests.ts';
import { requestAllocation } from '../../../src/operations/requests.ts';
import {
  adoptResidue,
  requestResidueDelete,
  requestResidueVerify,
} from '../../../src/operations/residue/residue-requests.ts';
import type { Caller } from '../../../src/operations/runtime/caller.ts';
import type { OperationServices } from '../../../src/operations/runtime/services.ts';
import { currentPool } from '../../../src/store/rows/pools.ts';
import { listResidue } from '../../../src/store/rows/residue.ts';
import type { Behaviour } from './upstream.ts';

/** The state of a case's pool. */
export interface View {
  nodes: { node_id: string; node_instance_id: string; status: string }[];
  allocations: { allocation_id: AllocationId; status: string; over: boolean }[];
  /** Operations that have not ended. */
  open: number;
}

/** The pool of one case. */
export interface Site {
  pool: string;
  services: OperationServices;
  caller: Caller;
  view(): View;
  until(condition: (view: View) => boolean): Promise<void>;
  /** A machine joins (external pools). */
  arrive(): void;
  killAgents(): void;
  repair(): void;
}

export interface Situation {
  name: string;
  pool?: Partial<PoolDocument>;
  machines?: Behaviour[];
  bring(site: Site): Promise<void>;
  /** Runs with the request. */
  meanwhile?(site: Site): void;
}

const allocate = async ({ pool, services, caller }: Site) => {
  await requestAllocation(services, { pool }, caller);
};
const node = (status: string) => (view: View) => view.nodes.at(-1)?.status === status;
const allocation = (status: string) => (view: View) => view.allocations.at(-1)?.status === status;
const quiet = ({ open }: View) => open === 0;
const both = (a: (view: View) => boolean, b: (view: View) => boolean) => (view: View) => a(view) && b(view);

const served = async (site: Site) => {
  await allocate(site);
  await site.until(both(allocation('active'), quiet));
};
const release = async ({ services, caller, view }: Site) => {
  const last = view().allocations.at(-1);
  if (last) await requestRelease(services, last.allocation_id, caller);
};
const freed = async (site: Site) => {
  await served(site);
  await release(site);
  await site.until(both(allocation('released'), quiet));
};
const arrived = async (site: Site) => {
  site.arrive();
  await site.until(node('ready'));
};
const act = async (site: Site, action: NodeActionName, options: Partial<ActionRequest> = {}) => {
  const last = site.view().nodes.at(-1);
  if (last) await actOnNode(site.services, last.node_id, action, { reason: 'for a test', ...options }, site.caller);
};

/** So late that the rule does not retry before a recovery with any fault has ended. */
const lateRetry = { step_tries: 2, retry_base_seconds: 200, retry_max_seconds: 200 };

export const situations: Situation[] = [
  { name: 'an empty pool', bring: async () => {} },
  { name: 'a pool whose machines crash', machines: ['crashes'], bring: async () => {} },
  { name: 'a pool that may try twice', machines: ['crashes'], pool: { attempts: 2 }, bring: async () => {} },
  { name: 'a provider that refuses', machines: ['refused'], bring: async () => {} },
  { name: 'a tenant is served', bring: served },
  { name: 'a tenant is served by a machine that stays', pool: { reuse: true }, bring: served },
  { name: 'a free machine', pool: { reuse: true }, bring: freed },
  {
    name: 'a machine whose agent is dead',
    async bring(site) {
      await served(site);
      site.killAgents();
      await site.until(node('offline'));
    },
  },
  {
    name: 'an allocation whose machine is gone',
    async bring(site) {
      await served(site);
      site.killAgents();
      await site.until(both(node('retired'), quiet));
    },
  },
  {
    name: 'a machine that nobody has heard of yet',
    machines: ['mute'],
    async bring(site) {
      await allocate(site);
      await site.until(({ nodes }) => nodes.length === 1);
    },
  },
  {
    name: 'a machine that never registered in time',
    machines: ['mute'],
    async bring(site) {
      await allocate(site);
      await site.until(both(node('failed'), quiet));
    },
  },
  {
    name: 'a release that failed and is not tried again soon',
    machines: ['dirty'],
    pool: { release: lateRetry },
    async bring(site) {
      await served(site);
      await release(site);
      await site.until(both(allocation('release_failed'), quiet));
    },
    meanwhile: (site) => site.repair(),
  },
  {
    name: 'a release that failed',
    machines: ['dirty'],
    async bring(site) {
      await served(site);
      await release(site);
      await site.until(both(allocation('release_failed'), quiet));
    },
    meanwhile: (site) => site.repair(),
  },
  {
    name: 'a release that failed, of a machine that stays',
    machines: ['dirty'],
    pool: { reuse: true },
    async bring(site) {
      await served(site);
      await release(site);
      await site.until(both(allocation('release_failed'), quiet));
    },
    meanwhile: (site) => site.repair(),
  },
  {
    name: 'what a forced release left on a machine that stays',
    machines: ['dirty'],
    pool: { reuse: true },
    async bring(site) {
      await served(site);
      await release(site);
      await site.until(both(allocation('release_failed'), quiet));
      await act(site, 'force-release');
      await site.until(both(node('quarantined'), quiet));
    },
    meanwhile: (site) => site.repair(),
  },
  {
    name: 'a machine set aside',
    pool: { reuse: true },
    async bring(site) {
      await freed(site);
      await act(site, 'quarantine');
    },
  },
  {
    name: 'a machine that is drained',
    async bring(site) {
      await served(site);
      await act(site, 'drain', { drain_then: 'retire' });
    },
  },
  { name: 'a machine that joined', pool: { driver: 'external' }, bring: arrived },
  {
    name: 'a tenant on a machine that joined',
    pool: { driver: 'external' },
    async bring(site) {
      await arrived(site);
      await served(site);
    },
  },
  {
    name: 'a tenant on a machine that joined and is let go',
    pool: { driver: 'external', reuse: false },
    async bring(site) {
      await arrived(site);
      await served(site);
    },
  },
];

/** A request; returns false, or is refused, if it is not open. A dry run changes nothing. */
export interface Request {
  name: string;
  send(site: Site, options: { dry_run: boolean }): Promise<boolean>;
}

/** Actions with options; every action is requested without options too. */
const variants: Partial<Record<NodeActionName, Record<string, Partial<ActionRequest>>>> = {
  drain: { 'drain, then retire': { drain_then: 'retire' } },
  'extend-deadline': { 'extend-deadline': { seconds: 30 } },
};

const variantsOf = (action: string, ways: Record<string, Partial<ActionRequest>> = {}) =>
  Object.entries({ [action]: {}, ...ways });

const ofNode = (action: NodeActionName): Request[] =>
  variantsOf(action, variants[action]).map(([name, options]) => ({
    name,
    async send(site, { dry_run }) {
      if (site.view().nodes.length === 0) return false;
      await act(site, action, { ...options, dry_run });
      return true;
    },
  }));

const isNodeAction = (action: string) => (nodeActionNames as string[]).includes(action);

/** Actions that nodes have too are requested on the node while there is one. */
const ofAllocation = (action: AllocationActionName): Request[] =>
  variantsOf(`${action} (allocation)`).map(([name, options]) => ({
    name,
    async send({ view, services, caller }, { dry_run }) {
      const [last, machine] = [view().allocations.at(-1), view().nodes.at(-1)];
      if (!last || (isNodeAction(action) && machine && machine.status !== 'retired')) return false;
      await actOnAllocation(
        services,
        last.allocation_id,
        action,
        { reason: 'for a test', ...options, dry_run },
        caller,
      );
      return true;
    },
  }));

const ofResidue = (
  name: string,
  act: (services: OperationServices, id: string, caller: Caller) => Promise<unknown>,
): Request => ({
  name,
  async send({ pool, services, caller }, { dry_run }) {
    const [left] = (await listResidue(services.db, { status: 'open', pool, limit: 1 })).items;
    if (left && !dry_run) await act(services, left.residue_id, caller);
    return left !== undefined;
  },
});

export const requests: Request[] = [
  {
    name: 'allocate',
    async send(site, { dry_run }) {
      if (site.view().allocations.some(({ status }) => status !== 'released')) return false;
      if (!dry_run) await allocate(site);
      return true;
    },
  },
  { name: 'nothing', send: async () => true },
  {
    name: 'recover all that failed to release',
    async send({ pool, services, caller }, { dry_run }) {
      const { release: policy } = (await currentPool(services.db, pool))?.document ?? {};
      if (policy?.retry_base_seconds !== lateRetry.retry_base_seconds) return false;
      if (dry_run) return true;
      const request = { action: 'retry-release' as const, filter: { pool }, reason: 'for a test' };
      return (await requestRecovery(services, request, caller)).workflow_id !== null;
    },
  },
  ...allocationActionNames.flatMap(ofAllocation),
  ...nodeActionNames.flatMap(ofNode),
  ofResidue('verify its residue', requestResidueVerify),
  ofResidue('delete its residue', requestResidueDelete),
  ofResidue('adopt its residue', adoptResidue),
];
