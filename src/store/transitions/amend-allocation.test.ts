/** Tests the reason of a failed allocation after retries and causes found later. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import { type Database, openDatabase } from '../pg/database.ts';
import { type AllocationRow, lockAllocation } from '../rows/allocations.ts';
import { markRetrying, recordAllocationCause, retryByHand } from './amend-allocation.ts';

const start = new Date('2026-01-01T12:00:00.000Z');
const later = new Date('2026-01-01T12:01:00.000Z');
const person: Actor = { kind: 'token', id: 'tok_1', name: 'admin' };
const verdict = { rule: 'node-failed', reason: 'set-up ended; code 5 follows', at: start.toISOString() };

let db: Database;
beforeAll(async () => {
  const database = await testDatabase();
  db = openDatabase({ url: database.url });
  await db.query(`
    insert into pools (name, driver, generation, created_at, updated_at) values ('p', 'external', 1, now(), now());
    insert into pool_generations (pool, generation, document, created_at) values ('p', 1, '{}', now())`);
  return database.drop;
});
afterAll(() => db.close());

beforeEach(async () => {
  await db.query('delete from operations');
  await db.query('delete from allocations');
  await insertOperation('op_first', new Date(start.getTime() - 60_000), { retry: true, reason: 'attempt 1 of 9' });
  await db.query(
    `insert into allocations (allocation_id, pool, tenant, status, status_since, correlation_id, workflow_id, verdict, reason, created_at)
     values ('alloc_1', 'p', 't', 'failed', $1, 'c', 'op_first', $2, $3, $1)`,
    [start, verdict, verdict.reason],
  );
});

const insertOperation = (workflow_id: string, created_at: Date, params: object, actor: Actor | null = null) =>
  db.query(
    `insert into operations (workflow_id, kind, revision, status, correlation_id, params, actor, created_at)
     values ($1, 'node-provision', 1, 'queued', 'c', $2, $3, $4)`,
    [workflow_id, params, actor, created_at],
  );

/** Changes the allocation under its row lock and returns the new reason. */
async function change(apply: (row: AllocationRow, tx: Parameters<typeof lockAllocation>[0]) => Promise<void>) {
  await db.transaction(async (tx) => {
    const row = await lockAllocation(tx, 'alloc_1');
    if (!row) throw new Error('the allocation is missing');
    await apply(row, tx);
  });
  const [row] = await db.query<{ reason: string }>('select reason from allocations');
  return row?.reason;
}

async function retry(id: string, next_try: string, actor: Actor | null = null) {
  const workflow_id = id as WorkflowId;
  await insertOperation(id, later, { retry: true, reason: actor ? 'it is urgent' : next_try }, actor);
  return change((row, tx) => markRetrying(tx, row, { workflow_id, next_try, actor }, later));
}

const explain = (reason: string) =>
  change((row, tx) => recordAllocationCause(tx, row, { ...verdict, reason, certain: true }, later));

test('a retry replaces the announced try and keeps the failure reason', async () => {
  expect(await retry('op_2', 'attempt 2 of 3')).toBe('set-up ended; code 5 follows; attempt 2 of 3 follows');
  expect(await retry('op_3', retryByHand, person)).toBe('set-up ended; code 5 follows; another try follows');
});

test('a cause found later replaces the failure reason and keeps the announced try', async () => {
  await retry('op_2', 'attempt 2 of 3');
  expect(await explain('disk full')).toBe('disk full; attempt 2 of 3 follows');
  await retry('op_3', retryByHand, person);
  expect(await explain('kernel panic')).toBe('kernel panic; another try follows');
});

test('does not announce a try that was queued before the failure', async () => {
  expect(await explain('disk full')).toBe('disk full');
});
