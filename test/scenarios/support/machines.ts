/**
 * Pools with budgets of seconds, machines simulated over plain HTTP, and waits for their statuses.
 */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Allocation } from '../../../src/contract/allocation.ts';
import type { Evidence } from '../../../src/contract/evidence/evidence.ts';
import type { Node } from '../../../src/contract/node.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { ScenarioContext } from './scenario.ts';

export async function externalPool(
  context: ScenarioContext,
  pool: string,
  document: Partial<PoolDocument> = {},
): Promise<void> {
  await context.client.call('pool-put', { params: { pool }, body: { driver: 'external', ...document } });
}

export async function localPool(
  context: ScenarioContext,
  pool: string,
  document: Partial<PoolDocument> = {},
): Promise<void> {
  await context.client.call('pool-put', { params: { pool }, body: { driver: 'local', ...document } });
}

/** Joins a machine, which is then starting. `more` is added to its registration. */
export async function joinMachine(
  context: ScenarioContext,
  pool: string,
  name: string,
  more: object = {},
): Promise<Machine> {
  const { token } = await context.client.call('join-token-create', { params: { pool } });
  if (!token) throw new Error('the answer contains no join token');
  return startMachine(context.server.url, { join_token: token, name, ...more });
}

export const nodeOf = (context: ScenarioContext, id: string): Promise<Node> =>
  context.client.call('node-get', { params: { id } });

export const waitForNode = (context: ScenarioContext, id: string, status: Node['status']): Promise<Node> =>
  context.waitFor(`node to be ${status}`, async () => {
    const node = await nodeOf(context, id);
    return node.status === status ? node : undefined;
  });

export const allocationOf = (context: ScenarioContext, id: string): Promise<Allocation> =>
  context.client.call('allocation-get', { params: { id } });

export const waitForAllocation = (
  context: ScenarioContext,
  id: string,
  ...statuses: Allocation['status'][]
): Promise<Allocation> =>
  context.waitFor(`allocation to be ${statuses.join(' or ')}`, async () => {
    const allocation = await allocationOf(context, id);
    return statuses.includes(allocation.status) ? allocation : undefined;
  });

export interface Change {
  at: Date;
  from: string;
  to: string;
  by: string;
  reason: string;
  /** The data that the decision is based on. */
  evidence: Record<string, unknown>;
}

const changeOf = ({ kind, at, data }: Evidence): Change[] =>
  kind.startsWith('node.') && data.to
    ? [
        {
          at: new Date(at),
          from: String(data.from),
          to: String(data.to),
          by: String(data.by),
          reason: String(data.reason),
          evidence: (data.evidence ?? {}) as Record<string, unknown>,
        },
      ]
    : [];

/**
 * A node's status changes from its timeline, oldest first. The timeline shows a fact once no older
 * transaction is open, so this reads until it includes the node's current status.
 */
export const changesOf = (context: ScenarioContext, id: string): Promise<Change[]> =>
  context.waitFor('the timeline to show the current status', async () => {
    const { status, status_since } = await nodeOf(context, id);
    const timeline = await context.client.call('node-timeline', {
      params: { id },
      query: { limit: 500, order: 'oldest' },
    });
    const changes = timeline.items.flatMap(changeOf);
    const current = changes.findIndex(
      (change) => change.to === status && change.at.getTime() === Date.parse(status_since),
    );
    return current === -1 ? undefined : changes;
  });

/** The rules and causes of a node's status changes, oldest first. */
export const causesOf = async (context: ScenarioContext, id: string): Promise<string[]> =>
  (await changesOf(context, id)).map((change) => change.by);

export interface BootSample {
  phase: 'provision' | 'start';
  outcome: 'completed' | 'late' | 'timed_out' | 'cancelled';
  seconds: number;
  lateness_seconds: number | null;
  budget_seconds: number;
  budget_source: string;
}

/** The boot samples of a node, from which budgets are learned, in the order of their phases. */
export const samplesOf = (context: ScenarioContext, node_id: string): Promise<BootSample[]> =>
  context.db.query<BootSample>(
    `select phase, outcome, seconds, lateness_seconds, budget_seconds, budget_source from boot_samples
     where node_id = $1 order by started_at, phase`,
    [node_id],
  );

/** Sends heartbeats in the background until stopped. */
export function keepBeating(machine: Machine, every_seconds: number, status?: string): { stop(): Promise<void> } {
  let isOver = false;
  const loop = (async () => {
    while (!isOver) {
      await machine.beat(status);
      await pause(systemClock, every_seconds * 1000);
    }
  })();
  return {
    async stop() {
      isOver = true;
      await loop;
    },
  };
}
