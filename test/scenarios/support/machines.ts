/**
 * Pools with budgets of seconds, machines simulated over plain HTTP, and waits for their statuses.
 */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Allocation } from '../../../src/contract/allocation.ts';
import type { Evidence } from '../../../src/contract/evidence/evidence.ts';
import type { Node } from '../../../src/contract/node.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { World } from './scenario.ts';

export async function externalPool(world: World, pool: string, document: Partial<PoolDocument> = {}): Promise<void> {
  await world.client.call('pool-put', { params: { pool }, body: { driver: 'external', ...document } });
}

export async function localPool(world: World, pool: string, document: Partial<PoolDocument> = {}): Promise<void> {
  await world.client.call('pool-put', { params: { pool }, body: { driver: 'local', ...document } });
}

/** Joins a machine, which is then starting; `more` is added to its registration. */
export async function joinMachine(world: World, pool: string, name: string, more: object = {}): Promise<Machine> {
  const { token } = await world.client.call('join-token-create', { params: { pool } });
  if (!token) throw new Error('a join token was made and not shown');
  return startMachine(world.server.url, { join_token: token, name, ...more });
}

export const nodeOf = (world: World, id: string): Promise<Node> => world.client.call('node-get', { params: { id } });

export const waitForNode = (world: World, id: string, status: Node['status']): Promise<Node> =>
  world.waitFor(`node to be ${status}`, async () => {
    const node = await nodeOf(world, id);
    return node.status === status ? node : undefined;
  });

export const allocationOf = (world: World, id: string): Promise<Allocation> =>
  world.client.call('allocation-get', { params: { id } });

export const waitForAllocation = (world: World, id: string, ...statuses: Allocation['status'][]): Promise<Allocation> =>
  world.waitFor(`allocation to be ${statuses.join(' or ')}`, async () => {
    const allocation = await allocationOf(world, id);
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
export const changesOf = (world: World, id: string): Promise<Change[]> =>
  world.waitFor('timeline to be as far as its node', async () => {
    const { status, status_since } = await nodeOf(world, id);
    const timeline = await world.client.call('node-timeline', {
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
export const causesOf = async (world: World, id: string): Promise<string[]> =>
  (await changesOf(world, id)).map((change) => change.by);

export interface BootSample {
  phase: 'provision' | 'start';
  outcome: 'completed' | 'late' | 'timed_out' | 'cancelled';
  seconds: number;
  lateness_seconds: number | null;
  budget_seconds: number;
  budget_source: string;
}

/** The boot samples of a node, from which budgets are learned, in the order of their phases. */
export const samplesOf = (world: World, node_id: string): Promise<BootSample[]> =>
  world.ledger.rows<BootSample>(
    `select phase, outcome, seconds, lateness_seconds, budget_seconds, budget_source from boot_samples
     where node_id = $1 order by started_at, phase`,
    [node_id],
  );

/** Sends heartbeats in the background until stopped. */
export function keepBeating(machine: Machine, every_seconds: number, status?: string): { stop(): Promise<void> } {
  let over = false;
  const loop = (async () => {
    while (!over) {
      await machine.beat(status);
      await pause(systemClock, every_seconds * 1000);
    }
  })();
  return {
    async stop() {
      over = true;
      await loop;
    },
  };
}
