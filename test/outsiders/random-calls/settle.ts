/**
 * Cleans up like an operator: releases what is left, and retires every machine by an offered
 * action.
 */
import type { Client } from '../../../src/contract/client.ts';
import { RequestRefused } from '../../../src/contract/client.ts';
import { until } from '../../support/until.ts';

const patience = { seconds: 240, every_ms: 500 };

const ignoreRefusal = async (work: () => Promise<unknown>): Promise<void> => {
  try {
    await work();
  } catch (error) {
    // Another request came first; the next round sees what is left.
    if (!(error instanceof RequestRefused) || error.problem.status >= 500) throw error;
  }
};

async function everyPage<Item>(
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

export const everyAllocation = (client: Client) =>
  everyPage((cursor) => client.call('allocation-list', { query: { limit: 500, ...(cursor && { cursor }) } }));
export const everyNode = (client: Client) =>
  everyPage((cursor) => client.call('node-list', { query: { limit: 500, ...(cursor && { cursor }) } }));

export async function releaseAll(client: Client): Promise<void> {
  let open: string[] = [];
  try {
    await until(
      'every allocation to be released',
      async () => {
        const left = (await everyAllocation(client)).filter(({ status }) => status !== 'released');
        open = left.map(({ allocation_id, status, reason }) => `${allocation_id} ${status} ${reason}`);
        for (const { allocation_id: id, status } of left)
          if (status !== 'releasing')
            await ignoreRefusal(() => client.call('allocation-release', { params: { id }, body: {} }));
        return left.length === 0;
      },
      patience,
    );
  } catch (error) {
    throw new Error(`still open: ${open.join('; ')}`, { cause: error });
  }
}

export async function retireAll(client: Client): Promise<void> {
  let open: string[] = [];
  try {
    await until(
      'every node to be retired',
      async () => {
        const left = (await everyNode(client)).filter(({ status }) => status !== 'retired');
        open = left.map(({ node_id, status, occupancy }) => `${node_id} ${status} ${occupancy}`);
        for (const { node_id: id } of left) {
          const { items } = await client.call('node-actions', { params: { id } });
          const ways = items.filter(({ open: isOpen }) => isOpen).map(({ action }) => action);
          if (ways.includes('retire'))
            await ignoreRefusal(() =>
              client.call('node-act', { params: { id, action: 'retire' }, body: { reason: 'the end of the run' } }),
            );
        }
        return left.length === 0;
      },
      patience,
    );
  } catch (error) {
    throw new Error(`still there: ${open.join('; ')}`, { cause: error });
  }
}
