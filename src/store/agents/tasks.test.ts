/** Tests leases, redeliveries and expiry of tasks. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { type NodeInstanceId, newTaskId, type TaskId } from '../../base/ids.ts';
import type { Database } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import {
  answerTask,
  countWaiting,
  expireLeases,
  hasLeasedWork,
  leaseNext,
  maxLeases,
  maxRedeliveries,
  queueTask,
  renewTaskLease,
  type TaskRow,
  taskRow,
} from './tasks.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

/** Creates a ready node, with functions that queue and lease its tasks. */
const worker = async () => {
  const { node_id, node_instance_id } = await fleet.node('ready');
  if (!node_instance_id) throw new Error('the node has no instance');
  const queue = async (type: string, limits: { lease_seconds?: number; expires_in?: number } = {}): Promise<TaskId> => {
    const now = fleet.now();
    const task_id = newTaskId(fleet.clock);
    const ids = { task_id, node_id, node_instance_id, correlation_id: null, allocation_id: null, workflow_id: null };
    const expires_at = secondsLater(now, limits.expires_in ?? 3600);
    const task = { ...ids, type, params: {}, lease_seconds: limits.lease_seconds ?? 10, expires_at };
    await db.transaction((tx) => queueTask(tx, task, now));
    return task_id;
  };
  const lease = (now = fleet.now(), fenced = false) =>
    db.transaction((tx) => leaseNext(tx, node_instance_id, now, fenced ? 'release' : 'all'));
  const start = fleet.now();
  /** Polls for an idle agent, at seconds after `start`. A long poll leases later than it polls. */
  const idlePoll = (polledAt: number, leasedAt = polledAt, fenced = false) =>
    db.transaction((tx) =>
      leaseNext(tx, node_instance_id, secondsLater(start, leasedAt), fenced ? 'release' : 'all', {
        polled_at: secondsLater(start, polledAt),
        idle: true,
      }),
    );
  return { node_instance_id, queue, lease, start, idlePoll };
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
const readEvidenceKinds = async (id: TaskId) =>
  (await db.query<{ kind: string }>(`select kind from evidence where data ->> 'task_id' = $1 order by seq`, [id])).map(
    (row) => row.kind,
  );

test('leases the oldest task first, each task once, for the time that the task sets', async () => {
  const { queue, lease, node_instance_id } = await worker();
  const ids = [await queue('a', { lease_seconds: 7 }), await queue('b'), await queue('c')];
  expect(await countWaiting(db, node_instance_id)).toBe(3);
  const now = fleet.now();
  const first = await lease(now);
  expect(first).toMatchObject({ task_id: ids[0], status: 'leased', leases: 1, lease_until: secondsLater(now, 7) });
  const others = await Promise.all([lease(), lease(), lease(), lease()]);
  expect(others.flatMap((task) => task?.task_id ?? []).sort()).toEqual(ids.slice(1).sort());
  expect(await countWaiting(db, node_instance_id)).toBe(0);
});

test('leases only release tasks to a fenced node', async () => {
  const { queue, lease, node_instance_id } = await worker();
  const command = await queue('command.run');
  const release = await queue('release.clean');
  expect((await lease(fleet.now(), true))?.task_id).toBe(release);
  expect(await lease(fleet.now(), true)).toBeUndefined();
  expect(await hasLeasedWork(db, node_instance_id)).toBe(false);
  expect((await lease())?.task_id).toBe(command);
  expect(await hasLeasedWork(db, node_instance_id)).toBe(true);
});

test('leases only pings after a restore, also again if a delivery was lost', async () => {
  const { queue, node_instance_id, start } = await worker();
  const poll = (seconds: number, idle = true) => {
    const at = secondsLater(start, seconds);
    return db.transaction((tx) => leaseNext(tx, node_instance_id, at, 'pings', { polled_at: at, idle }));
  };
  await queue('release.clean');
  const command = await queue('command.run');
  const ping = await queue('ping');
  expect((await poll(1))?.task_id).toBe(ping);
  expect((await poll(2))?.task_id).toBe(ping);
  expect(await poll(3, false)).toBeUndefined();
  // A command that was leased before the restore is not delivered again.
  await db.query(`update tasks set status = 'leased', lease_until = $2, polled_at = $3 where task_id = $1`, [
    command,
    secondsLater(start, 100),
    start,
  ]);
  await db.query(`update tasks set status = 'failed' where task_id = $1`, [ping]);
  expect(await poll(4)).toBeUndefined();
});

test('refuses lease, renewal and answer to another instance', async () => {
  const [mine, other] = [await worker(), await worker()];
  const id = await mine.queue('a');
  expect(await other.lease()).toBeUndefined();
  await mine.lease();
  expect(
    await db.transaction((tx) => renewTaskLease(tx, id, other.node_instance_id, null, fleet.now())),
  ).toBeUndefined();
  expect(await answer(id, other.node_instance_id, 'succeeded')).toBe('unknown');
  expect((await taskRow(db, id))?.status).toBe('leased');
});

test('keeps a renewed lease and requeues the task of an expired one', async () => {
  const { queue, lease, node_instance_id } = await worker();
  const id = await queue('a', { lease_seconds: 10 });
  const start = fleet.now();
  await lease(start);
  await db.transaction((tx) => renewTaskLease(tx, id, node_instance_id, { percent: 50 }, secondsLater(start, 9)));
  await expire(secondsLater(start, 15));
  expect(await taskRow(db, id)).toMatchObject({ status: 'leased', progress: { percent: 50 } });
  await expire(secondsLater(start, 19));
  expect(await taskRow(db, id)).toMatchObject({ status: 'queued', lease_until: null, error: null });
  expect(await answer(id, node_instance_id, 'succeeded')).toBe('lease_lost');
  expect((await lease(secondsLater(start, 20)))?.leases).toBe(2);
});

test('fails a task after the maximum number of leases and records each lease', async () => {
  const { queue, lease } = await worker();
  const id = await queue('a', { lease_seconds: 1 });
  let now = fleet.now();
  for (let i = 0; i < maxLeases; i++) {
    expect((await lease(now))?.task_id).toBe(id);
    now = secondsLater(now, 2);
    await expire(now);
  }
  expect(await taskRow(db, id)).toMatchObject({ status: 'failed', error: { code: 'task_given_up' }, finished_at: now });
  expect((await taskRow(db, id))?.error?.message).toContain(`${maxLeases} times`);
  expect(await lease(now)).toBeUndefined();
  const expiredLease = ['task.leased', 'task.requeued'];
  expect(await readEvidenceKinds(id)).toEqual([
    'task.queued',
    ...expiredLease,
    ...expiredLease,
    'task.leased',
    'task.failed',
  ]);
});

test('fails an expired task, queued or leased', async () => {
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

test('accepts a repeated answer and refuses a different one', async () => {
  const { queue, lease, node_instance_id } = await worker();
  const id = await queue('a');
  expect(await answer(id, node_instance_id, 'succeeded')).toBe('lease_lost');
  await lease();
  expect(await answer(id, node_instance_id, 'succeeded')).toBe('answered');
  expect(await answer(id, node_instance_id, 'succeeded')).toBe('answered');
  expect(await answer(id, node_instance_id, 'failed')).toBe('lease_lost');
  expect((await readEvidenceKinds(id)).filter((kind) => kind === 'task.succeeded').length).toBe(1);
  expect(await answer('task_unknown' as TaskId, node_instance_id, 'succeeded')).toBe('unknown');
});

test('delivers a lost task again to an idle agent, within the same lease', async () => {
  const { queue, idlePoll, start } = await worker();
  const lost = await queue('a', { lease_seconds: 15 });
  const next = await queue('b');
  expect((await idlePoll(1))?.task_id).toBe(lost);
  const lease_until = secondsLater(start, 2 + 15);
  expect(await idlePoll(2)).toMatchObject({ task_id: lost, leases: 1, redeliveries: 1, lease_until });
  expect(await idlePoll(3)).toMatchObject({ task_id: lost, leases: 1, redeliveries: 2 });
  expect(await readEvidenceKinds(lost), 'only the first redelivery is recorded').toEqual([
    'task.queued',
    'task.leased',
    'task.redelivered',
  ]);
  expect((await taskRow(db, next))?.status).toBe('queued');
});

test('redelivers a task only to a later poll of an idle agent', async () => {
  const { queue, idlePoll, lease, start } = await worker();
  const id = await queue('a');
  expect((await idlePoll(2))?.task_id).toBe(id);
  expect(await idlePoll(1, 3), 'a long poll that its agent abandoned').toBeUndefined();
  expect(await idlePoll(2, 3), 'the same poll').toBeUndefined();
  expect(await lease(secondsLater(start, 4))).toBeUndefined();
  expect(await taskRow(db, id)).toMatchObject({ redeliveries: 0, polled_at: secondsLater(start, 2) });
});

test('does not redeliver a task that was started, answered or expired, or that is not allowed when fenced', async () => {
  const begun = await worker();
  const id = await begun.queue('a', { lease_seconds: 5 });
  await begun.idlePoll(1);
  await db.transaction((tx) => renewTaskLease(tx, id, begun.node_instance_id, {}, secondsLater(begun.start, 2)));
  expect(await begun.idlePoll(3)).toBeUndefined();
  await expire(secondsLater(begun.start, 10));
  expect(await begun.idlePoll(11), 'in its second lease').toMatchObject({ task_id: id, leases: 2 });
  expect(await begun.idlePoll(12), 'the agent did not start the task').toMatchObject({
    task_id: id,
    leases: 2,
    redeliveries: 1,
  });
  await answer(id, begun.node_instance_id, 'succeeded');
  expect(await begun.idlePoll(13)).toBeUndefined();

  const late = await worker();
  await late.queue('a', { expires_in: 5, lease_seconds: 100 });
  await late.idlePoll(1);
  expect(await late.idlePoll(6)).toBeUndefined();

  const ended = await worker();
  await ended.queue('a', { lease_seconds: 10 });
  await ended.idlePoll(1);
  expect(await ended.idlePoll(12), 'the lease expired, and the sweep has not counted it yet').toBeUndefined();

  const fenced = await worker();
  await fenced.queue('command.run');
  const release = await fenced.queue('release.stop');
  await fenced.idlePoll(1);
  expect((await fenced.idlePoll(2, 2, true))?.task_id).toBe(release);
  expect(await fenced.idlePoll(3, 3, true), 'release tasks are redelivered').toMatchObject({
    task_id: release,
    redeliveries: 1,
  });
  expect(await (await worker()).idlePoll(4)).toBeUndefined();
});

test('limits redeliveries and does not count them as leases', async () => {
  const { queue, idlePoll, start } = await worker();
  const id = await queue('a', { lease_seconds: 10 });
  for (let poll = 1; poll <= maxRedeliveries + 1; poll++) expect((await idlePoll(poll))?.task_id).toBe(id);
  const last = maxRedeliveries + 1;
  expect(await idlePoll(last + 1)).toBeUndefined();
  expect(await taskRow(db, id)).toMatchObject({ status: 'leased', leases: 1, redeliveries: maxRedeliveries });
  await expire(secondsLater(start, last + 10));
  expect(await idlePoll(last + 11)).toMatchObject({ task_id: id, leases: 2, redeliveries: 0 });
});

test('the latest of concurrent polls gets the task', async () => {
  const { queue, idlePoll, node_instance_id, start } = await worker();
  for (let round = 100; round <= 1000; round += 100) {
    const id = await queue('a');
    const polls = [1, 2, 3, 4].map((n) => round + n);
    await Promise.all(polls.map((at) => idlePoll(at, round + 50)));
    // The evidence of a lease wakes the waiting long polls.
    await Promise.all(polls.map((at) => idlePoll(at, round + 51)));
    expect((await taskRow(db, id))?.polled_at).toEqual(secondsLater(start, round + 4));
    expect((await taskRow(db, id))?.leases).toBe(1);
    await answer(id, node_instance_id, 'succeeded');
  }
});
