/**
 * Statements for one machine use an index. Without extra conditions, PostgreSQL would scan a fleet
 * of medium size, because it cannot estimate the rows of a JSON text.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment, secondsLater } from '../../base/clock.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Database, Transaction } from '../pg/database.ts';
import { lockNode } from '../rows/nodes.ts';
import { declarePool } from '../rows/pools.ts';
import { placeNodes } from '../testing/placed-nodes.ts';
import { moveDeadlines } from './deadlines.ts';
import { transition } from './node-transition.ts';
import { defaultEnvironment } from './transition-rules.ts';

let store: TestStore;
let db: Database;
const start = moment(Date.UTC(2030, 0, 1));
const fleetSize = 10_000;
/** PostgreSQL tries a few custom plans before it keeps a generic one. */
const rounds = 8;
const offline = { to: 'offline', by: 'liveness', reason: 'silent' } as const;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  await db.transaction((tx) => declarePool(tx, 'p', { driver: 'external' }, start));
  await placeNodes(db, { pool: 'p', count: fleetSize, since: start });
  await db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
     select 'alloc_' || node_id, pool, node_id, 'acme', 'active', status_since, 'c', created_at
     from nodes`,
  );
  for (const table of ['nodes', 'allocations']) await db.query(`analyze ${table}`);
});

afterAll(() => store.close());

/** Runs `work` and returns the statements that scan all nodes or allocations. */
async function findTableScans(work: (tx: Transaction) => Promise<unknown>): Promise<string[]> {
  const scans: string[] = [];
  await db.transaction(async (tx) => {
    await work({
      ...tx,
      query: async (text, values) => {
        const plan = await tx.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
        const isTableScan = plan.some((row) => /Seq Scan on (nodes|allocations)/.test(row['QUERY PLAN']));
        if (isTableScan) scans.push(text);
        return tx.query(text, values);
      },
    });
  });
  return scans;
}

test('a transition uses indexes', async () => {
  const node_id = 'node_p_5' as NodeId;
  expect(
    await findTableScans(async (tx) => {
      await transition(tx, [{ ...offline, node_id }], start, defaultEnvironment);
      const back = { to: 'ready', by: 'heartbeat-returned', reason: 'its heartbeats resumed' } as const;
      await transition(tx, [{ ...back, node_id }], secondsLater(start, 60), defaultEnvironment);
    }),
  ).toEqual([]);
});

test('moving a deadline uses indexes', async () => {
  const node_id = 'node_p_6' as NodeId;
  await db.transaction((tx) => transition(tx, [{ ...offline, node_id }], start, defaultEnvironment));
  expect(
    await findTableScans(async (tx) => {
      const node = await lockNode(tx, node_id);
      if (!node) throw new Error('no node was placed');
      const move = { node, deadline_at: secondsLater(start, 90), reason: 'more time' };
      await moveDeadlines(tx, [move], { layer: 'operator' }, start);
    }),
  ).toEqual([]);
});

test('PostgreSQL keeps a generic plan for the statements of one machine', async () => {
  const node_id = 'node_p_7' as NodeId;
  const statements = await db.transaction(async (tx) => {
    for (let round = 0; round < rounds; round++) {
      await transition(tx, [{ ...offline, node_id }], start, defaultEnvironment);
      const back = { to: 'ready', by: 'heartbeat-returned', reason: 'its heartbeats resumed' } as const;
      await transition(tx, [{ ...back, node_id }], start, defaultEnvironment);
    }
    return tx.query<{ statement: string; has_generic_plan: boolean }>(
      `select statement, generic_plans > 0 as has_generic_plan
       from pg_prepared_statements
       where generic_plans + custom_plans >= ${rounds}`,
    );
  });
  expect(statements.filter(({ has_generic_plan }) => !has_generic_plan)).toEqual([]);
  expect(statements.some(({ statement }) => /for no key update of node/.test(statement))).toBe(true);
  expect(statements.some(({ statement }) => /update nodes/.test(statement))).toBe(true);
});
