/** Writes of the executing replica are idempotent, and refused after another replica took over. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { newCorrelationId, newReplicaId, newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Database } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import {
  becomeExecutor,
  ExecutionSuperseded,
  type Executor,
  finishOperation,
  lockQueuedOperations,
  markStarted,
  runOnce,
  stopOverdue,
} from './executions.ts';
import { markCancelling, readOperation, requeue } from './operations.ts';
import { publishProgress } from './publish-progress.ts';
import { queueOperation } from './queue-operation.ts';
import { declareReplicasDead, registerReplica } from './replicas.ts';
import { endStep, startStep } from './steps.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

const registerTestReplica = (): Promise<Executor> => {
  const now = fleet.now();
  const where = { host: 'here', pid: 1, address: 'http://here', version: '1' };
  return registerReplica(db, {
    ...where,
    replica_id: newReplicaId(fleet.clock),
    started_at: now,
    lease_until: secondsLater(now, 10),
  });
};

const steps = ['first', 'second'].map((name) => ({ name, label: name, usual_seconds: 10, within_seconds: 60 }));

async function queueTestOperation(): Promise<{ workflow_id: WorkflowId; attempt: number }> {
  const workflow_id = newWorkflowId(fleet.clock);
  const fields = { workflow_id, kind: 'test', revision: 1, tenant: null, actor: null, params: {}, steps };
  await db.transaction((tx) => queueOperation(tx, { ...fields, correlation_id: newCorrelationId() }, fleet.now()));
  return { workflow_id, attempt: 1 };
}

async function startTestOperation(): Promise<{
  run: { workflow_id: WorkflowId; attempt: number };
  executor: Executor;
}> {
  const run = await queueTestOperation();
  const executor = await registerTestReplica();
  await becomeExecutor(db, run, executor, fleet.now());
  return { run, executor };
}

const readFactKinds = async (id: WorkflowId) =>
  (await db.query<{ kind: string }>('select kind from evidence where workflow_id = $1 order by seq', [id])).map(
    (row) => row.kind,
  );
const requireOperation = async (id: WorkflowId, now = fleet.now()) => {
  const row = await readOperation(db, id, wholeFleet, now);
  if (!row) throw new Error('the operation does not exist');
  return row;
};

test('returns the first result of a repeated step and writes nothing again', async () => {
  const { run, executor } = await startTestOperation();
  let effects = 0;
  const step = () =>
    runOnce(db, run.workflow_id, 'make', executor, fleet.now(), async (tx) => {
      effects++;
      await recordEvidence(tx, [
        { at: fleet.now(), layer: 'workflow', kind: 'node.explained', summary: 'made', workflow_id: run.workflow_id },
      ]);
      return { made: effects };
    });
  expect(await Promise.all([step(), step(), step()])).toEqual([{ made: 1 }, { made: 1 }, { made: 1 }]);
  expect(effects).toBe(1);
  expect((await readFactKinds(run.workflow_id)).filter((kind) => kind === 'node.explained').length).toBe(1);
});

test('stores no receipt for a failed step, so that a repeat does the work', async () => {
  const { run, executor } = await startTestOperation();
  const step = (fails: boolean) =>
    runOnce(db, run.workflow_id, 'make', executor, fleet.now(), async (tx) => {
      await recordEvidence(tx, [
        { at: fleet.now(), layer: 'workflow', kind: 'node.explained', summary: 'made', workflow_id: run.workflow_id },
      ]);
      if (fails) throw new Error('cut off');
      return 'done';
    });
  await expect(step(true)).rejects.toThrow('cut off');
  expect(await readFactKinds(run.workflow_id)).not.toContain('node.explained');
  expect(await step(false)).toBe('done');
});

test('refuses every write of the former executor after a takeover', async () => {
  const { run, executor: former } = await startTestOperation();
  const successor = await registerTestReplica();
  await declareReplicasDead(db, [{ replica_id: former.replica_id, why: 'silent' }], successor.replica_id, fleet.now());
  await becomeExecutor(db, run, successor, fleet.now());
  const before = await readFactKinds(run.workflow_id);
  expect(before).toContain('operation.taken_over');
  const lateWrites: Record<string, () => Promise<unknown>> = {
    becomeExecutor: () => becomeExecutor(db, run, former, fleet.now()),
    runOnce: () => runOnce(db, run.workflow_id, 'late', former, fleet.now(), async () => 'no'),
    startStep: () => startStep(db, run, 'first', 1, former, fleet.now()),
    endStep: () => endStep(db, run, 'first', { status: 'done', tries: 1 }, former, fleet.now()),
    publish: () => publishProgress(db, run, { message: 'late' }, former, fleet.now()),
    finish: () => finishOperation(db, run, { status: 'succeeded' }, former, fleet.now()),
  };
  for (const [name, write] of Object.entries(lateWrites))
    await expect(write(), name).rejects.toBeInstanceOf(ExecutionSuperseded);
  expect(await readFactKinds(run.workflow_id)).toEqual(before);
  expect((await requireOperation(run.workflow_id)).status).toBe('running');
  await finishOperation(db, run, { status: 'succeeded' }, successor, fleet.now());
  expect((await requireOperation(run.workflow_id)).status).toBe('succeeded');
});

test('refuses to execute an attempt other than the current one', async () => {
  const { run, executor } = await startTestOperation();
  await expect(becomeExecutor(db, { ...run, attempt: 2 }, executor, fleet.now())).rejects.toBeInstanceOf(
    ExecutionSuperseded,
  );
});

test('lets only one replica start a queued operation', async () => {
  const { workflow_id } = await queueTestOperation();
  const executors = await Promise.all([registerTestReplica(), registerTestReplica(), registerTestReplica()]);
  const started = await Promise.all(
    executors.map((executor) =>
      db.transaction(async (tx) => {
        const ids = (await lockQueuedOperations(tx, 100, [{ kind: 'test', revision: 1 }]))
          .map((row) => row.workflow_id)
          .filter((id) => id === workflow_id);
        await markStarted(tx, ids, executor, fleet.now());
        return ids.length;
      }),
    ),
  );
  expect(started.reduce((sum, count) => sum + count, 0)).toBe(1);
});

test('never lowers the percentage through retries, a failure and another attempt', async () => {
  const { run, executor } = await startTestOperation();
  let now = fleet.now();
  const percents: number[] = [];
  const recordPercent = async (work?: Promise<unknown>) => {
    await work;
    now = secondsLater(now, 3);
    percents.push((await requireOperation(run.workflow_id, now)).progress.percent);
  };
  const failure = { code: 'broken', owner_layer: 'node', message: 'it broke' };
  await recordPercent(startStep(db, run, 'first', 1, executor, now));
  await recordPercent(
    endStep(db, run, 'first', { status: 'retrying', tries: 1, error: failure, retry_at: now }, executor, now),
  );
  await recordPercent(startStep(db, run, 'first', 2, executor, now));
  await recordPercent(endStep(db, run, 'first', { status: 'done', tries: 2 }, executor, now));
  await recordPercent(startStep(db, run, 'second', 1, executor, now));
  await recordPercent(endStep(db, run, 'second', { status: 'failed', tries: 1, error: failure }, executor, now));
  await recordPercent(
    finishOperation(db, run, { status: 'failed', error: { ...failure, step: 'second' } as never }, executor, now),
  );
  expect((await requireOperation(run.workflow_id)).error?.message).toBe('it broke');
  await recordPercent(db.transaction((tx) => requeue(tx, run.workflow_id, now, null)));
  const again = { ...run, attempt: 2 };
  await recordPercent(becomeExecutor(db, again, executor, now));
  await recordPercent(startStep(db, again, 'first', 1, executor, now));
  await recordPercent(startStep(db, again, 'second', 1, executor, now));
  await recordPercent(endStep(db, again, 'second', { status: 'done', tries: 1 }, executor, now));
  await recordPercent(finishOperation(db, again, { status: 'succeeded' }, executor, now));
  expect(percents).toEqual([...percents].sort((a, b) => a - b));
  expect(percents.slice(0, -1).every((percent) => percent < 100)).toBe(true);
  expect(percents.at(-1)).toBe(100);
  const ended = await requireOperation(run.workflow_id);
  expect(ended).toMatchObject({ status: 'succeeded', attempt: 2, error: null });
  expect(ended.steps.map((step) => step.status)).toEqual(['done', 'done']);
  // A finished step does not start again.
  expect((await readFactKinds(run.workflow_id)).filter((kind) => kind === 'step.started').length).toBe(4);
});

test('keeps the first ending; cancels a queued operation at once and marks a running one', async () => {
  const { run, executor } = await startTestOperation();
  await finishOperation(db, run, { status: 'succeeded' }, executor, fleet.now());
  await finishOperation(db, run, { status: 'failed' }, executor, fleet.now());
  expect((await requireOperation(run.workflow_id)).status).toBe('succeeded');
  expect(await db.transaction((tx) => markCancelling(tx, run.workflow_id, fleet.now(), null))).toBeUndefined();
  expect(await db.transaction((tx) => requeue(tx, run.workflow_id, fleet.now(), null))).toBeUndefined();
  const waiting = await queueTestOperation();
  expect((await db.transaction((tx) => markCancelling(tx, waiting.workflow_id, fleet.now(), null)))?.status).toBe(
    'cancelled',
  );
  const busy = await startTestOperation();
  expect((await db.transaction((tx) => markCancelling(tx, busy.run.workflow_id, fleet.now(), null)))?.status).toBe(
    'cancelling',
  );
});

test('ends the running or waiting step of a cancelled operation with it', async () => {
  const error = { code: 'broken', owner_layer: 'node', message: 'it broke' };
  for (const waits of [false, true]) {
    const { run, executor } = await startTestOperation();
    const started = fleet.now();
    await startStep(db, run, 'first', 1, executor, started);
    const ending = { status: 'retrying', tries: 1, error, retry_at: secondsLater(started, 60) } as const;
    if (waits) await endStep(db, run, 'first', ending, executor, started);
    const cancelled = secondsLater(started, 5);
    await finishOperation(db, run, { status: 'cancelled' }, executor, cancelled);
    const { steps: ended } = await requireOperation(run.workflow_id, secondsLater(started, 41 * 60));
    expect(ended[0]).toMatchObject({
      status: waits ? 'failed' : 'cancelled',
      finished_at: cancelled.toISOString(),
      retry_at: null,
      error: waits ? error : null,
    });
    expect(ended[1]?.status).toBe('pending');
  }
});

test('shows a step that an older version left open as ended with its operation', async () => {
  for (const [status, shown] of [
    ['cancelled', 'cancelled'],
    ['failed', 'failed'],
  ] as const) {
    const { run, executor } = await startTestOperation();
    await startStep(db, run, 'first', 1, executor, fleet.now());
    const ended = secondsLater(fleet.now(), 5);
    await finishOperation(db, run, { status }, executor, ended);
    await db.query(`update steps set status = 'running', finished_at = null where workflow_id = $1 and ordinal = 1`, [
      run.workflow_id,
    ]);
    const { steps: left } = await requireOperation(run.workflow_id, secondsLater(ended, 41 * 60));
    expect(left[0]).toMatchObject({ status: shown, finished_at: ended.toISOString() });
  }
});

test('stops an overdue step once, and ends its operation as failed with that cause', async () => {
  const { run, executor } = await startTestOperation();
  const started = fleet.now();
  await startStep(db, run, 'first', 1, executor, started);
  const within = steps[0]?.within_seconds ?? 0;
  const stopAt = (seconds: number) => db.transaction((tx) => stopOverdue(tx, secondsLater(started, seconds), 10));
  const ownStopped = async (seconds: number) =>
    (await stopAt(seconds)).filter((row) => row.workflow_id === run.workflow_id);
  expect(await ownStopped(within - 0.001)).toEqual([]);
  expect((await ownStopped(within)).length).toBe(1);
  expect(await ownStopped(within)).toEqual([]);
  await finishOperation(db, run, { status: 'cancelled' }, executor, fleet.now());
  expect(await requireOperation(run.workflow_id)).toMatchObject({
    status: 'failed',
    error: { code: 'operation_overdue', step: 'first', owner_layer: 'workflow' },
  });
});
