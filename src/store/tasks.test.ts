/** Leases: who gets a task, for how long, and what becomes of one that nobody answers. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../test/support/store.ts';
import { secondsLater } from '../base/clock.ts';
import { type NodeInstanceId, newTaskId, type TaskId } from '../base/ids.ts';
import type { Database } from './database.ts';
import {
  answerTask,
  countWaiting,
  expireLeases,
  hasLeasedWork,
  leaseNext,
  mostLeases,
  queueTask,
  renewLease,
  type TaskRow,
  taskRow,
} from './tasks.ts';
import { type Fleet, testFleet } from './testing/fleet.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

const worker = async () => {
  const { node_id, node_instance_id } = await fleet.node('ready');
  if (!node_instance_id) throw new Error('a node without an instance');
  const queue = async (type: string, limits: { lease_seconds?: number; expires_in?: number } = {}): Promise<TaskId> => {
    const now = fleet.now();
    const task_id = newTaskId(fleet.clock);
    const ids = { task_id, node_id, node_instance_id, correlation_id: null, allocation_id: null, workflow_id: null };
    const expires_at = secondsLater(now, limits.expires_in ?? 3600);
    const fresh = { ...ids, type, params: {}, lease_seconds: limits.lease_seconds ?? 10, expires_at };
    await db.transaction((tx) => queueTask(tx, fresh, now));
    return task_id;
  };
  const lease = (now = fleet.now(), fenced = false) =>
    db.transaction((tx) => leaseNext(tx, node_instance_id, now, fenced));
  return { node_instance_id, queue, lease };
};

const expire = (now: Date) => db.transaction((tx) => expireLeases(tx, now, 100));
const answer = (id: TaskId, instance: NodeInstanceId, status: 'succeeded' | 'failed') =>
  db.transaction((tx) =>
    answerTask(
      tx,
      id,
      instance,
      { status, ...(status === 'failed' && { error: { code: 'x', message: 'no' } }) },
      fleet.now(),
    ),
  );
const kindsOf = async (id: TaskId) =>
  (await db.query<{ kind: string }>(`select kind from evidence where data ->> 'task_id' = $1 order by seq`, [id])).map(
    (row) => row.kind,
  );

test('the oldest comes first, each to one who asks, and the lease lasts as long as the task says', async () => {
  const { queue, lease, node_instance_id } = await worker();
  const ids = [await queue('a', { lease_seconds: 7 }), await queue('b'), await queue('c')];
  expect(await countWaiting(db, node_instance_id)).toBe(3);
  const now = fleet.now();
  const got = await lease(now);
  expect(got).toMatchObject({ task_id: ids[0], status: 'leased', leases: 1, lease_until: secondsLater(now, 7) });
  const others = await Promise.all([lease(), lease(), lease(), lease()]);
  expect(others.flatMap((task) => task?.task_id ?? []).sort()).toEqual(ids.slice(1).sort());
  expect(await countWaiting(db, node_instance_id)).toBe(0);
});

test('a node that is fenced gets only what takes it down', async () => {
  const { queue, lease, node_instance_id } = await worker();
  const ordinary = await queue('command.run');
  const release = await queue('release.clean');
  expect((await lease(fleet.now(), true))?.task_id).toBe(release);
  expect(await lease(fleet.now(), true)).toBeUndefined();
  expect(await hasLeasedWork(db, node_instance_id)).toBe(false);
  expect((await lease())?.task_id).toBe(ordinary);
  expect(await hasLeasedWork(db, node_instance_id)).toBe(true);
});

test('another instance neither gets, renews nor answers it', async () => {
  const [mine, other] = [await worker(), await worker()];
  const id = await mine.queue('a');
  expect(await other.lease()).toBeUndefined();
  await mine.lease();
  expect(await db.transaction((tx) => renewLease(tx, id, other.node_instance_id, null, fleet.now()))).toBeUndefined();
  expect(await answer(id, other.node_instance_id, 'succeeded')).toBe('unknown');
  expect((await taskRow(db, id))?.status).toBe('leased');
});

test('a renewed lease does not expire, one that is not does and is handed out again', async () => {
  const { queue, lease, node_instance_id } = await worker();
  const id = await queue('a', { lease_seconds: 10 });
  const start = fleet.now();
  await lease(start);
  await db.transaction((tx) => renewLease(tx, id, node_instance_id, { percent: 50 }, secondsLater(start, 9)));
  await expire(secondsLater(start, 15));
  expect(await taskRow(db, id)).toMatchObject({ status: 'leased', progress: { percent: 50 } });
  await expire(secondsLater(start, 19));
  expect(await taskRow(db, id)).toMatchObject({ status: 'queued', lease_until: null, error: null });
  expect(await answer(id, node_instance_id, 'succeeded')).toBe('lease_lost');
  expect((await lease(secondsLater(start, 20)))?.leases).toBe(2);
});

test('after so many leases it is given up, with its history', async () => {
  const { queue, lease } = await worker();
  const id = await queue('a', { lease_seconds: 1 });
  let now = fleet.now();
  for (let i = 0; i < mostLeases; i++) {
    expect((await lease(now))?.task_id).toBe(id);
    now = secondsLater(now, 2);
    await expire(now);
  }
  expect(await taskRow(db, id)).toMatchObject({ status: 'failed', error: { code: 'task_given_up' }, finished_at: now });
  expect((await taskRow(db, id))?.error?.message).toContain(`${mostLeases} times`);
  expect(await lease(now)).toBeUndefined();
  const again = ['task.leased', 'task.requeued'];
  expect(await kindsOf(id)).toEqual(['task.queued', ...again, ...again, 'task.leased', 'task.failed']);
});

test('past its time it fails, leased or not, and is handed to nobody', async () => {
  const { queue, lease } = await worker();
  const leased = await queue('a', { lease_seconds: 1000, expires_in: 5 });
  const waiting = await queue('b', { expires_in: 5 });
  await lease();
  const late = secondsLater(fleet.now(), 6);
  expect(await lease(late)).toBeUndefined();
  await expire(late);
  for (const id of [leased, waiting])
    expect(await taskRow(db, id)).toMatchObject({ status: 'failed' } satisfies Partial<TaskRow>);
});

test('an answer counts once; the same again is fine, another is not', async () => {
  const { queue, lease, node_instance_id } = await worker();
  const id = await queue('a');
  expect(await answer(id, node_instance_id, 'succeeded')).toBe('lease_lost');
  await lease();
  expect(await answer(id, node_instance_id, 'succeeded')).toBe('answered');
  expect(await answer(id, node_instance_id, 'succeeded')).toBe('answered');
  expect(await answer(id, node_instance_id, 'failed')).toBe('lease_lost');
  expect((await kindsOf(id)).filter((kind) => kind === 'task.succeeded').length).toBe(1);
  expect(await answer('task_nobody' as TaskId, node_instance_id, 'succeeded')).toBe('unknown');
});
