/** The search for free nodes: the longest free first, without checking held nodes again. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment, secondsLater } from '../../base/clock.ts';
import { placeNodes } from '../testing/placed-nodes.ts';
import { type FreeNodeHints, lockFreeNodes } from './free-nodes.ts';
import { declarePool } from './pools.ts';

let store: TestStore;
const start = moment(Date.UTC(2030, 0, 1));
const hour = 3600;
const heldNodes = 30;

beforeAll(async () => {
  store = await testStore();
  await store.db.transaction((tx) => declarePool(tx, 'p', { driver: 'external' }, start));
  await placeNodes(store.db, { pool: 'p', count: heldNodes, since: start });
  await store.db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
     select 'alloc_' || node_id, pool, node_id, 'acme', 'active', status_since, 'c', created_at from nodes`,
  );
  for (let place = 0; place < 3; place++)
    await placeNodes(store.db, {
      pool: 'p',
      count: 1,
      after: heldNodes + place,
      since: secondsLater(start, (1 + place) * hour),
    });
});

afterAll(() => store.close());

const hints: FreeNodeHints = new Map();
const now = secondsLater(start, 24 * hour);

/** Returns the names of the nodes, and whether all nodes were searched. */
async function search(limit: number, at = now): Promise<{ names: string[]; searchedAll: boolean }> {
  const since: unknown[] = [];
  const nodes = await store.db.transaction((tx) =>
    lockFreeNodes(
      {
        ...tx,
        query: (text, values, options) => {
          since.push(values?.[1]);
          return tx.query(text, values, options);
        },
      },
      'p',
      limit,
      at,
      hints,
    ),
  );
  return { names: nodes.map(({ name }) => name), searchedAll: since.includes('-infinity') };
}

const setHeld = (node: string, status: 'active' | 'released') =>
  store.db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
     values ('alloc_' || $1, 'p', $1, 'acme', $2, $3, 'c', $3)
     on conflict (allocation_id) do update set status = $2`,
    [`node_${node.replace('-', '_')}`, status, start],
  );

test('returns the longest free node first, and skips held nodes in later searches', async () => {
  expect(await search(1)).toEqual({ names: ['p-31'], searchedAll: true });
  expect(await search(1)).toEqual({ names: ['p-31'], searchedAll: false });
  await setHeld('p-31', 'active');
  expect(await search(2)).toEqual({ names: ['p-32', 'p-33'], searchedAll: false });
});

test('finds an older node that became free if too few others are free, or after the hint expires', async () => {
  await setHeld('p-5', 'released');
  expect(await search(1)).toEqual({ names: ['p-32'], searchedAll: false });
  expect(await search(3)).toEqual({ names: ['p-5', 'p-32', 'p-33'], searchedAll: true });
  await setHeld('p-5', 'active');
  expect(await search(1)).toEqual({ names: ['p-32'], searchedAll: false });
  await setHeld('p-5', 'released');
  expect(await search(1)).toEqual({ names: ['p-32'], searchedAll: false });
  expect(await search(1, secondsLater(now, hour))).toEqual({ names: ['p-5'], searchedAll: true });
});
