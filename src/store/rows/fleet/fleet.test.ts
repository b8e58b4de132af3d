/** The compact fleet list returns every live node once, in pages of any size. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../../test/support/store.ts';
import { moment } from '../../../base/clock.ts';
import type { FleetPage } from '../../../contract/fleet/fleet.ts';
import { nodeStatusNames } from '../../../lifecycle/model/states.ts';
import { tenantOnly, type Visibility, wholeFleet } from '../../../lifecycle/visibility.ts';
import type { Queryable } from '../../pg/database.ts';
import { type Fleet, testFleet } from '../../testing/fleet.ts';
import { placeNodes } from '../../testing/placed-nodes.ts';
import { declarePool } from '../pools.ts';
import { parseFleetCursor, readFleet } from './fleet.ts';
import { listNodes } from './node-list.ts';

let store: TestStore;
let fleet: Fleet;
beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
  for (const status of nodeStatusNames) await fleet.node(status);
  await fleet.allocation('active', await fleet.node('ready'));
  await fleet.allocation('release_failed', await fleet.node('cleaning'), 'globex');
  await fleet.allocation('released', await fleet.node('ready'), 'globex');
  await store.db.query(
    `update nodes set labels = '{"rack": "r1"}', zone = 'eu-1', held = '{"rule": "liveness", "to": "offline"}' where status = 'degraded'`,
  );
});
afterAll(() => store.close());

async function pagesOf(limit: number, visibility: Visibility): Promise<FleetPage[]> {
  const pages: FleetPage[] = [];
  let cursor: string | null = null;
  do {
    const after: ReturnType<typeof parseFleetCursor> = cursor === null ? undefined : parseFleetCursor(cursor);
    const page = await readFleet(store.db, { after, limit, visibility });
    pages.push(page);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return pages;
}

const nodesOf = (page: FleetPage) =>
  page.node_ids.map((node_id, i) => ({
    node_id,
    name: page.names[i],
    status: page.statuses[page.status[i] ?? -1],
    pool: page.pools[page.pool[i] ?? -1],
    zone: page.zones[page.zone[i] ?? -1],
    labels: page.labels[page.label[i] ?? -1],
    status_since: moment(page.status_since_ms[i] ?? 0).toISOString(),
    deadline_at: page.deadline_ms[i] == null ? null : moment(page.deadline_ms[i] ?? 0).toISOString(),
    held: page.held.includes(i),
  }));

const byId = (a: { node_id: string }, b: { node_id: string }) => (a.node_id < b.node_id ? -1 : 1);

test.each([1, 3, 1000])('returns the same live nodes as the list of nodes, in pages of %i', async (limit) => {
  const { items } = await listNodes(store.db, { limit: 500, visibility: wholeFleet });
  const live = items.flatMap(({ node_id, name, status, pool, zone, labels, status_since, deadline_at, held }) =>
    status === 'retired'
      ? []
      : [{ node_id, name, status, pool, zone, labels, status_since, deadline_at, held: held !== null }],
  );
  const read = (await pagesOf(limit, wholeFleet)).flatMap(nodesOf);
  expect(read.sort(byId)).toEqual(live.sort(byId));
  expect(read.filter(({ held }) => held)).toHaveLength(1);
});

test('returns to a tenant the same nodes as the list of nodes', async () => {
  for (const tenant of ['acme', 'globex', 'nobody']) {
    const visibility = tenantOnly(tenant);
    const { items } = await listNodes(store.db, { limit: 500, visibility });
    const read = (await pagesOf(1, visibility)).flatMap(nodesOf).map(({ node_id }) => node_id);
    expect(read.sort()).toEqual(items.map(({ node_id }) => node_id).sort());
  }
});

test('reads the index of live nodes without sorting, and finds a tenant’s nodes through its allocations', async () => {
  await store.db.transaction((tx) => declarePool(tx, 'many', { driver: 'external' }, fleet.now()));
  await placeNodes(store.db, { pool: 'many', count: 5000, since: fleet.now() });
  await store.db.query(`update nodes set status = 'retired' where pool = 'many' and node_id not like '%7'`);
  await store.db.query('analyze nodes');
  const plans: string[] = [];
  const explained: Queryable = {
    ...store.db,
    query: async (text, values) => {
      const rows = await store.db.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
      plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
      return store.db.query(text, values);
    },
  };
  const planFor = async (visibility: Visibility) => {
    await readFleet(explained, { after: { pool: 'many', name: 'm' }, limit: 100, visibility });
    return plans.pop() ?? '';
  };
  const whole = await planFor(wholeFleet);
  expect(whole).toContain('Index Scan using nodes_live_name');
  expect(whole).not.toContain('Sort');
  const one = await readFleet(explained, { after: undefined, limit: 200, pool: 'many', visibility: wholeFleet });
  expect(plans.pop()).toContain('Index Scan using nodes_live_name');
  expect([one.pools, one.node_ids.length]).toEqual([['many'], 200]);
  // A tenant's nodes are found by its allocations, without walking the fleet.
  const own = await planFor(tenantOnly('globex'));
  expect(own).toContain('allocations_held');
  expect(own).not.toMatch(/nodes_live_name|Seq Scan on nodes/);
});
