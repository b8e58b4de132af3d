/**
 * The situations, and the requests that are sent in them. Every action that is allowed in a
 * situation is requested. Add a situation or a request only if every-step.test.ts names an
 * operation that no situation and request of this file leads to.
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
  allocations: { allocation_id: AllocationId; status: string; isPastDeadline: boolean }[];
  /** The number of operations that have not ended. */
  openOperations: number;
}

/** The pool of one case, and the events that a situation can cause in it. */
export interface CasePool {
  pool: string;
  services: OperationServices;
  caller: Caller;
  view(): View;
  until(condition: (view: View) => boolean): Promise<void>;
  /** Lets a machine join an external pool. */
  join(): void;
  killAgents(): void;
  /** From now on the machines of the pool can be cleaned. */
  repair(): void;
}

export interface Situation {
  name: string;
  pool?: Partial<PoolDocument>;
  /** The behaviours of the first machines in launch order; all later machines are well. */
  machines?: Behaviour[];
  prepare(casePool: CasePool): Promise<void>;
  /** Runs right after the request was sent. */
  afterRequest?(casePool: CasePool): void;
}

const allocate = async ({ pool, services, caller }: CasePool) => {
  await requestAllocation(services, { pool }, caller);
};
const isNode = (status: string) => (view: View) => view.nodes.at(-1)?.status === status;
const isAllocation = (status: string) => (view: View) => view.allocations.at(-1)?.status === status;
const isIdle = ({ openOperations }: View) => openOperations === 0;
const whenBoth = (a: (view: View) => boolean, b: (view: View) => boolean) => (view: View) => a(view) && b(view);

const prepareActive = async (casePool: CasePool) => {
  await allocate(casePool);
  await casePool.until(whenBoth(isAllocation('active'), isIdle));
};
const release = async ({ services, caller, view }: CasePool) => {
  const last = view().allocations.at(-1);
  if (last) await requestRelease(services, last.allocation_id, caller);
};
const prepareFree = async (casePool: CasePool) => {
  await prepareActive(casePool);
  await release(casePool);
  await casePool.until(whenBoth(isAllocation('released'), isIdle));
};
const prepareJoinedMachine = async (casePool: CasePool) => {
  casePool.join();
  await casePool.until(isNode('ready'));
};
const act = async (casePool: CasePool, action: NodeActionName, options: Partial<ActionRequest> = {}) => {
  const last = casePool.view().nodes.at(-1);
  if (last)
    await actOnNode(casePool.services, last.node_id, action, { reason: 'for a test', ...options }, casePool.caller);
};

/** The rule retries so late that a recovery has ended by then, whatever its fault. */
const lateRetry = { step_tries: 2, retry_base_seconds: 200, retry_max_seconds: 200 };

export const situations: Situation[] = [
  { name: 'an empty pool', prepare: async () => {} },
  { name: 'a pool whose first machine crashes', machines: ['crashes'], prepare: async () => {} },
  {
    name: 'a pool with two attempts whose first machine crashes',
    machines: ['crashes'],
    pool: { attempts: 2 },
    prepare: async () => {},
  },
  { name: 'a pool whose first launch the provider refuses', machines: ['refused'], prepare: async () => {} },
  { name: 'an active allocation', prepare: prepareActive },
  { name: 'an active allocation on a reusable machine', pool: { reuse: true }, prepare: prepareActive },
  { name: 'a free machine', pool: { reuse: true }, prepare: prepareFree },
  {
    name: 'an offline machine whose agent is dead',
    async prepare(casePool) {
      await prepareActive(casePool);
      casePool.killAgents();
      await casePool.until(isNode('offline'));
    },
  },
  {
    name: 'an allocation whose machine was retired after its agent died',
    async prepare(casePool) {
      await prepareActive(casePool);
      casePool.killAgents();
      await casePool.until(whenBoth(isNode('retired'), isIdle));
    },
  },
  {
    name: 'a machine that has not registered yet',
    machines: ['mute'],
    async prepare(casePool) {
      await allocate(casePool);
      await casePool.until(({ nodes }) => nodes.length === 1);
    },
  },
  {
    name: 'a machine that missed its registration deadline',
    machines: ['mute'],
    async prepare(casePool) {
      await allocate(casePool);
      await casePool.until(whenBoth(isNode('failed'), isIdle));
    },
  },
  {
    name: 'a failed release that is retried much later',
    machines: ['dirty'],
    pool: { release: lateRetry },
    async prepare(casePool) {
      await prepareActive(casePool);
      await release(casePool);
      await casePool.until(whenBoth(isAllocation('release_failed'), isIdle));
    },
    afterRequest: (casePool) => casePool.repair(),
  },
  {
    name: 'a failed release',
    machines: ['dirty'],
    async prepare(casePool) {
      await prepareActive(casePool);
      await release(casePool);
      await casePool.until(whenBoth(isAllocation('release_failed'), isIdle));
    },
    afterRequest: (casePool) => casePool.repair(),
  },
  {
    name: 'a failed release of a reusable machine',
    machines: ['dirty'],
    pool: { reuse: true },
    async prepare(casePool) {
      await prepareActive(casePool);
      await release(casePool);
      await casePool.until(whenBoth(isAllocation('release_failed'), isIdle));
    },
    afterRequest: (casePool) => casePool.repair(),
  },
  {
    name: 'a reusable machine that a forced release quarantined',
    machines: ['dirty'],
    pool: { reuse: true },
    async prepare(casePool) {
      await prepareActive(casePool);
      await release(casePool);
      await casePool.until(whenBoth(isAllocation('release_failed'), isIdle));
      await act(casePool, 'force-release');
      await casePool.until(whenBoth(isNode('quarantined'), isIdle));
    },
    afterRequest: (casePool) => casePool.repair(),
  },
  {
    name: 'a quarantined machine',
    pool: { reuse: true },
    async prepare(casePool) {
      await prepareFree(casePool);
      await act(casePool, 'quarantine');
    },
  },
  {
    name: 'a draining machine',
    async prepare(casePool) {
      await prepareActive(casePool);
      await act(casePool, 'drain', { drain_then: 'retire' });
    },
  },
  { name: 'a machine that joined', pool: { driver: 'external' }, prepare: prepareJoinedMachine },
  {
    name: 'an active allocation on a machine that joined',
    pool: { driver: 'external' },
    async prepare(casePool) {
      await prepareJoinedMachine(casePool);
      await prepareActive(casePool);
    },
  },
  {
    name: 'an active allocation on a machine that joined and is not reused',
    pool: { driver: 'external', reuse: false },
    async prepare(casePool) {
      await prepareJoinedMachine(casePool);
      await prepareActive(casePool);
    },
  },
];

export interface Request {
  name: string;
  /**
   * Returns false or throws an ApiProblem if the request is not allowed. A dry run changes nothing.
   */
  send(casePool: CasePool, options: { dry_run: boolean }): Promise<boolean>;
}

/** The options with which an action is requested, in addition to a request without options. */
const variants: Partial<Record<NodeActionName, Record<string, Partial<ActionRequest>>>> = {
  drain: { 'drain, then retire': { drain_then: 'retire' } },
  'extend-deadline': { 'extend-deadline': { seconds: 30 } },
};

const variantsOf = (action: string, options: Record<string, Partial<ActionRequest>> = {}) =>
  Object.entries({ [action]: {}, ...options });

const nodeRequests = (action: NodeActionName): Request[] =>
  variantsOf(action, variants[action]).map(([name, options]) => ({
    name,
    async send(casePool, { dry_run }) {
      if (casePool.view().nodes.length === 0) return false;
      await act(casePool, action, { ...options, dry_run });
      return true;
    },
  }));

const isNodeAction = (action: string) => (nodeActionNames as string[]).includes(action);

/** An action that also exists for nodes is requested on the allocation only without a live node. */
const allocationRequests = (action: AllocationActionName): Request[] =>
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

const residueRequest = (
  name: string,
  act: (services: OperationServices, id: string, caller: Caller) => Promise<unknown>,
): Request => ({
  name,
  async send({ pool, services, caller }, { dry_run }) {
    const [residue] = (await listResidue(services.db, { status: 'open', pool, limit: 1 })).items;
    if (residue && !dry_run) await act(services, residue.residue_id, caller);
    return residue !== undefined;
  },
});

export const requests: Request[] = [
  {
    name: 'allocate',
    async send(casePool, { dry_run }) {
      if (casePool.view().allocations.some(({ status }) => status !== 'released')) return false;
      if (!dry_run) await allocate(casePool);
      return true;
    },
  },
  { name: 'no request', send: async () => true },
  {
    name: 'recover all failed releases',
    async send({ pool, services, caller }, { dry_run }) {
      const { release: policy } = (await currentPool(services.db, pool))?.document ?? {};
      if (policy?.retry_base_seconds !== lateRetry.retry_base_seconds) return false;
      if (dry_run) return true;
      const request = { action: 'retry-release' as const, filter: { pool }, reason: 'for a test' };
      return (await requestRecovery(services, request, caller)).workflow_id !== null;
    },
  },
  ...allocationActionNames.flatMap(allocationRequests),
  ...nodeActionNames.flatMap(nodeRequests),
  residueRequest('verify the residue', requestResidueVerify),
  residueRequest('delete the residue', requestResidueDelete),
  residueRequest('adopt the residue', adoptResidue),
];
