/**
 * Cleans up after a run as an operator would: releases every allocation and retires every node
 * through the API.
 */
import type { Client } from '../../../src/contract/client.ts';
import { RequestRefused } from '../../../src/contract/client.ts';
import { until } from '../../support/until.ts';

const patience = { seconds: 240, every_ms: 500 };

const ignoreRefusal = async (work: () => Promise<unknown>): Promise<void> => {
  try {
    await work();
  } catch (error) {
    // Another request changed the object first. The next round reads the new state.
    if (!(error instanceof RequestRefused) || error.problem.status >= 500) throw error;
  }
};

async function readPages<Item>(
  read: (cursor?: string) => Promise<{ items: Item[]; next_cursor: string | null }>,
): Promise<Item[]> {
  const items: Item[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await read(cursor);
    items.push(...page.items);
    cursor = page.next_cursor;
  }
  return items;
}

export const readAllocations = (client: Client) =>
  readPages((cursor) => client.call('allocation-list', { query: { limit: 500, ...(cursor && { cursor }) } }));
const readNodes = (client: Client) =>
  readPages((cursor) => client.call('node-list', { query: { limit: 500, ...(cursor && { cursor }) } }));

export async function releaseAll(client: Client): Promise<void> {
  let unreleased: string[] = [];
  try {
    await until(
      'every allocation to be released',
      async () => {
        const remainingAllocations = (await readAllocations(client)).filter(({ status }) => status !== 'released');
        unreleased = remainingAllocations.map(
          ({ allocation_id, status, reason }) => `${allocation_id} ${status} ${reason}`,
        );
        for (const { allocation_id: id, status } of remainingAllocations)
          if (status !== 'releasing')
            await ignoreRefusal(() => client.call('allocation-release', { params: { id }, body: {} }));
        return remainingAllocations.length === 0;
      },
      patience,
    );
  } catch (error) {
    throw new Error(`not released: ${unreleased.join('; ')}`, { cause: error });
  }
}

export async function retireAll(client: Client): Promise<void> {
  let unretired: string[] = [];
  try {
    await until(
      'every node to be retired',
      async () => {
        const remainingNodes = (await readNodes(client)).filter(({ status }) => status !== 'retired');
        unretired = remainingNodes.map(({ node_id, status, occupancy }) => `${node_id} ${status} ${occupancy}`);
        for (const { node_id: id } of remainingNodes) {
          const { items } = await client.call('node-actions', { params: { id } });
          const allowedActions = items.filter(({ open }) => open).map(({ action }) => action);
          if (allowedActions.includes('retire'))
            await ignoreRefusal(() =>
              client.call('node-act', { params: { id, action: 'retire' }, body: { reason: 'end of the run' } }),
            );
        }
        return remainingNodes.length === 0;
      },
      patience,
    );
  } catch (error) {
    throw new Error(`not retired: ${unretired.join('; ')}`, { cause: error });
  }
}
