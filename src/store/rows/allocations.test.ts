/** Tests when the API shows the rescue deadline of a failed allocation. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { type NodeId, newWorkflowId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { queueOperation } from '../operations/queue-operation.ts';
import type { Database } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { type AllocationRow, readAllocation } from './allocations.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

async function createFailedAllocation(): Promise<AllocationRow> {
  const node = await fleet.node('provisioning');
  const { allocation_id } = await fleet.allocation('provisioning', node);
  await fleet.move({ node_id: node.node_id, to: 'failed', by: 'provision-error', reason: 'broken' });
  const [row] = await db.query<AllocationRow>('select * from allocations where allocation_id = $1', [allocation_id]);
  if (row?.status !== 'failed' || !row.deadline_at) throw new Error('the allocation did not fail with its node');
  return row;
}

/** Adds an unfinished operation that was created this many seconds after the failure. */
async function addOperation({ allocation_id, correlation_id, status_since }: AllocationRow, seconds: number) {
  const workflow_id = newWorkflowId(fleet.clock);
  const fresh = { workflow_id, kind: 'test', revision: 1, tenant: null, actor: null, params: {}, steps: [] };
  await db.transaction((tx) =>
    queueOperation(tx, { ...fresh, allocation_id, correlation_id }, secondsLater(status_since, seconds)),
  );
  await db.query('update allocations set workflow_id = $2 where allocation_id = $1', [allocation_id, workflow_id]);
}

const readDeadline = async ({ allocation_id, status_since }: AllocationRow, seconds = 1) =>
  (await readAllocation(db, allocation_id, wholeFleet, secondsLater(status_since, seconds)))?.deadline_at;

test('shows the deadline while the failed operation is unfinished, and none while a retry runs', async () => {
  const row = await createFailedAllocation();
  const end = row.deadline_at?.toISOString();
  expect(await readDeadline(row)).toBe(end);
  await addOperation(row, -30);
  expect(await readDeadline(row)).toBe(end);
  await addOperation(row, 0);
  expect(await readDeadline(row)).toBeNull();
});

/** Longer than any rescue window. */
const afterDeadlineSeconds = 1e7;

test('shows no deadline after it has passed, or after the node has left failed', async () => {
  const row = await createFailedAllocation();
  expect(await readDeadline(row, afterDeadlineSeconds)).toBeNull();
  await fleet.move({
    node_id: row.node_id as NodeId,
    to: 'cleaning',
    by: 'retire',
    reason: 'an operator retires the node',
  });
  expect(await readDeadline(row)).toBeNull();
});
