/** What the scenarios' machines say and what becomes of them: pools with budgets of seconds, machines played over plain HTTP. */
import { pause, systemClock } from '../../../src/base/clock.ts';
import type { Node } from '../../../src/contract/node.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import { type Machine, startMachine } from '../../api/support/machine.ts';
import type { World } from './scenario.ts';

export async function externalPool(world: World, pool: string, document: Partial<PoolDocument> = {}): Promise<void> {
  await world.client.call('pool-put', { params: { pool }, body: { driver: 'external', ...document } });
}

/** A machine that joins by itself and is starting. */
export async function joined(world: World, pool: string, name: string): Promise<Machine> {
  const { token } = await world.client.call('join-token-create', { params: { pool } });
  if (!token) throw new Error('a join token was made and not shown');
  return startMachine(world.server.url, { join_token: token, name });
}

export const nodeOf = (world: World, id: string): Promise<Node> => world.client.call('node-get', { params: { id } });

export const becomesNode = (world: World, id: string, status: Node['status']): Promise<Node> =>
  world.comes(`node to be ${status}`, async () => {
    const node = await nodeOf(world, id);
    return node.status === status ? node : undefined;
  });

/** The rules and causes of a node's changes, oldest first. */
export async function causesOf(world: World, id: string): Promise<string[]> {
  const story = await world.client.call('node-timeline', { params: { id }, query: { limit: 500, order: 'oldest' } });
  return story.items.flatMap((fact) => (fact.kind.startsWith('node.') && fact.data.to ? [String(fact.data.by)] : []));
}

/** Beats until told to stop; the beats go on in the background while the story looks elsewhere. */
export function beating(machine: Machine, every_seconds: number, status?: string): { stop(): Promise<void> } {
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
