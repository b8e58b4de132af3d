/** Counts equal the rows after any transitions, including rolled-back and killed transactions. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Held } from '../../contract/node.ts';
import type { AllocationStatus } from '../../lifecycle/model/states.ts';
import { allocationEdges, nodeEdges } from '../../lifecycle/model/transitions.ts';
import type { Database, Transaction } from '../pg/database.ts';
import { countPopulation, holdNodes } from '../supervision/brake.ts';
import { type Fleet, findShortestPath, testFleet } from '../testing/fleet.ts';
import { moveAllocations } from '../transitions/allocation-transition.ts';
import { transition } from '../transitions/node-transition.ts';
import type { AllocationRow } from './allocations.ts';
import { countByStatus, countFleet, countHeld, foldCounts, repairCounts, verifyCounts } from './counts.ts';
import type { NodeRow } from './nodes.ts';
import { readPool } from './pools.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  const node = await fleet.node('ready');
  await fleet.allocation('active', node);
  await fleet.move({ node_id: node.node_id, to: 'offline', by: 'liveness', reason: 'a held node that is not up' });
});
afterAll(() => store.close());

/** Counts by reading the rows. */
const countRows = <R extends object>(sql: string) => db.query<R>(sql);

const holders = `('provisioning', 'active', 'releasing', 'release_failed')`;

async function expectCountsMatch() {
  expect(await verifyCounts(db)).toEqual([]);
  for (const of of ['nodes', 'allocations', 'operations'] as const) {
    const rows = await countRows<{ status: string; count: number }>(
      `select status, count(*)::int as count from ${of} group by 1 order by 1`,
    );
    expect((await countByStatus(db))[of]).toEqual(Object.fromEntries(rows.map((row) => [row.status, row.count])));
  }
  expect(await countFleet(db)).toEqual(
    await countRows(
      `select pool, zone, status, count(*)::int as nodes, count(held)::int as held
       from nodes
       where status <> 'retired'
       group by 1, 2, 3
       order by 1, 2, 3`,
    ),
  );
  expect(await countHeld(db)).toEqual(
    await countRows(
      `select held ->> 'rule' as rule, held ->> 'kind' as kind, count(*)::int as count
       from nodes
       where held is not null
       group by 1, 2
       order by 1, 2`,
    ),
  );
  const [pool] = await countRows<{ live: number; free: number }>(
    `select count(*)::int as live,
       count(*) filter (
         where status = 'ready'
           and not exists (
             select from allocations holder
             where holder.node_id = node.node_id
               and holder.status in ${holders}
           )
       )::int as free
     from nodes node
     where pool = 'test'
       and status <> 'retired'`,
  );
  expect((await readPool(db, 'test'))?.nodes).toEqual(pool);
  const [up] = await countRows<{ count: number }>(
    `select count(*)::int as count from nodes where pool = 'test' and status in ('ready', 'degraded')`,
  );
  expect(await countPopulation(db, { scope: 'pool', name: 'test' }, ['ready', 'degraded'])).toBe(up?.count);
}

const ends = ['committed', 'rolled back', 'killed'] as const;
type End = (typeof ends)[number];

/** `killed` terminates the connection inside the transaction, as if its process had died. */
async function withEnd(end: End, work: (tx: Transaction) => Promise<unknown>): Promise<void> {
  const running = db.transaction(async (tx) => {
    await work(tx);
    if (end === 'rolled back') throw new Error('rolled back');
    if (end === 'killed') await tx.query('select pg_terminate_backend(pg_backend_pid())');
  });
  if (end === 'committed') await running;
  else await expect(running).rejects.toThrow();
}

const pick = <T>(list: readonly T[], at: number): T | undefined => list[at % Math.max(1, list.length)];

const held: Held = {
  rule: 'liveness',
  kind: 'mass-failure',
  reason: 'many',
  since: '2030-01-01T00:00:00Z',
  held_until: '2030-01-02T00:00:00Z',
} as Held;

/** Random events. `at` selects the row, and `end` says how its transaction ends. */
const events = {
  async node(at: number) {
    await fleet.node(pick(['provisioning', 'ready', 'offline', 'retired'] as const, at));
  },
  async moves(at: number, end: End) {
    const rows = await db.query<NodeRow>('select * from nodes order by node_id limit 3 offset $1', [at % 7]);
    await withEnd(end, (tx) =>
      transition(
        tx,
        rows.flatMap(({ node_id, status }) => {
          const edge = pick(
            nodeEdges.filter((each) => each.from === status),
            at,
          );
          return edge?.by[0] ? [{ node_id, to: edge.to, by: edge.by[0], reason: 'random' }] : [];
        }),
        fleet.now(),
        fleet.environment,
      ),
    );
  },
  async allocation(at: number) {
    const node = await fleet.node('ready');
    await fleet.allocation(
      pick(['requested', 'active', 'releasing', 'failed'] as const, at),
      at % 3 === 0 ? null : node,
    );
  },
  async allocationMoves(at: number, end: End) {
    const row = pick(await db.query<AllocationRow>('select * from allocations order by allocation_id'), at);
    const edge =
      row &&
      pick(
        allocationEdges.filter((each) => each.from === row.status),
        at,
      );
    const [by] = edge?.by ?? [];
    if (!row || !edge || !by) return;
    const move = { allocation_id: row.allocation_id, to: edge.to, by, reason: 'random' };
    await withEnd(end, (tx) => moveAllocations(tx, [move], fleet.now(), fleet.environment));
  },
  async holds(at: number, end: End) {
    const rows = await db.query<NodeRow>(
      `select * from nodes where status <> 'retired' order by node_id limit 2 offset $1`,
      [at % 5],
    );
    await withEnd(end, (tx) =>
      holdNodes(
        tx,
        rows.map((node) => ({ node, held })),
        fleet.now(),
      ),
    );
  },
  async operation(at: number, end: End) {
    await withEnd(end, (tx) =>
      tx.query(
        `insert into operations (workflow_id, kind, revision, status, correlation_id, created_at)
         values ('op_' || gen_random_uuid(), 'test', 1, 'queued', 'c', now())`,
      ),
    );
    await withEnd(end, (tx) =>
      tx.query(`update operations set status = $1, percent = 1`, [pick(['running', 'failed', 'succeeded'], at)]),
    );
  },
  async fold() {
    await foldCounts(db);
  },
};

const names = Object.keys(events) as (keyof typeof events)[];
const event = fc.record({
  name: fc.constantFrom(...names),
  at: fc.nat({ max: 50 }),
  end: fc.constantFrom<End>('committed', 'committed', 'rolled back', 'killed'),
});

/**
 * The product finishes a release in the transaction that retires its node. Random events retire
 * only the node, so allocations on retired nodes are released here before the counts are compared.
 */
async function endReleasesOfRetired(): Promise<void> {
  const unreleased = await db.query<AllocationRow>(
    `select holder.*
     from allocations holder
     join nodes node using (node_id)
     where node.status = 'retired'
       and holder.status in ${holders}`,
  );
  for (const { allocation_id, status } of unreleased)
    for (const step of findShortestPath<AllocationStatus>(allocationEdges, status, 'released'))
      await fleet.moveAllocation({ allocation_id, ...step, reason: 'its machine is gone' });
}

test('counts equal the rows after random concurrent events and folds', { timeout: 120_000 }, async () => {
  // Run each event once, because the random sequences may miss some.
  for (const end of ends) for (const name of names) await events[name](1, end);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(event, { maxLength: 4 }), { minLength: 1, maxLength: 4 }), async (lanes) => {
      const lane = async (steps: (typeof lanes)[number]) => {
        for (const { name, at, end } of steps) await events[name](at, end);
      };
      // The second of two concurrent changes may be refused.
      await Promise.allSettled(lanes.map(lane));
      await endReleasesOfRetired();
      await expectCountsMatch();
    }),
    { numRuns: 12 },
  );
  const { nodes, allocations, operations } = await countByStatus(db);
  for (const each of [nodes, allocations])
    expect(Object.keys(each).length, 'several statuses occurred').toBeGreaterThan(1);
  expect(operations).not.toEqual({});
});

test('folding during concurrent writes does not change the counts', async () => {
  const ids: NodeId[] = [];
  for (let i = 0; i < 4; i++) ids.push((await fleet.node('ready')).node_id);
  // Another node stays ready, because a status without nodes is not listed.
  await fleet.node('ready');
  const before = await countByStatus(db);
  await db.query(
    `insert into counts select 'nodes', 'test', null, 'ready', null, null, null, 1 - 2 * (i % 2) from generate_series(1, 3000) as i`,
  );
  const [one = 0, other = 0] = await Promise.all([
    foldCounts(db),
    foldCounts(db),
    ...ids.map((node_id) => fleet.move({ node_id, to: 'degraded', by: 'degraded', reason: 'errors' })),
  ]);
  expect(Number(one) + Number(other)).toBeGreaterThan(0);
  const { ready = 0, degraded = 0 } = before.nodes;
  expect((await countByStatus(db)).nodes).toMatchObject({ ready: ready - 4, degraded: degraded + 4 });
  await expectCountsMatch();
});

test('two concurrent repairs after a bypassed trigger correct the counts once, with one fact', async () => {
  const ids = [await fleet.node('ready'), await fleet.node('ready')].map(({ node_id }) => node_id);
  await db.transaction(async (tx) => {
    await tx.query(`set local session_replication_role = 'replica'`);
    await tx.query(`update nodes set status = 'quarantined' where node_id = any($1)`, [ids]);
  });
  const wrong = await verifyCounts(db);
  expect(wrong.map(({ status, counted, there_are }) => [status, there_are - counted])).toEqual([
    ['quarantined', 2],
    ['ready', -2],
  ]);
  const repairs = await Promise.all([1, 2].map(() => db.transaction((tx) => repairCounts(tx, fleet.now()))));
  expect(repairs.map((each) => each.length).toSorted()).toEqual([0, 2]);
  await expectCountsMatch();
  const facts = await db.query<{ summary: string; data: { off: number } }>(
    `select summary, data from evidence where kind = 'count.repaired'`,
  );
  expect(facts.map(({ data }) => data.off)).toEqual([4]);
});
