/** Tests that publishing progress is atomic, and that estimates come from the pool's samples. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { newCorrelationId, newReplicaId, newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Database } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { becomeExecutor, type Executor, finishOperation } from './executions.ts';
import { readOperation, requeue } from './operations.ts';
import { publishProgress } from './publish-progress.ts';
import { queueOperation } from './queue-operation.ts';
import { registerReplica } from './replicas.ts';
import { endStep, startStep } from './steps.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
let executor: Executor;
/** Times in these tests are seconds after this. */
let start: Date;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  start = fleet.now();
  const where = { host: 'here', pid: 1, address: 'http://here', version: '1' };
  const lease = { started_at: start, lease_until: secondsLater(start, 10_000) };
  executor = await registerReplica(db, { ...where, ...lease, replica_id: newReplicaId(fleet.clock) });
});

afterAll(() => store.close());

const steps = ['first', 'second'].map((name) => ({ name, label: name, usual_seconds: 10, within_seconds: 60 }));

async function startTestOperation(
  node_id?: string,
  plan = steps,
): Promise<{ workflow_id: WorkflowId; attempt: number }> {
  const run = { workflow_id: newWorkflowId(fleet.clock), attempt: 1 };
  const fields = { ...run, kind: 'test', revision: 1, tenant: null, actor: null, params: {}, steps: plan };
  const node = node_id === undefined ? {} : { node_id: node_id as never };
  await db.transaction((tx) => queueOperation(tx, { ...fields, ...node, correlation_id: newCorrelationId() }, start));
  await becomeExecutor(db, run, executor, start);
  return run;
}

const readProgress = async ({ workflow_id }: { workflow_id: WorkflowId }, now = start) => {
  const operation = await readOperation(db, workflow_id, wholeFleet, now);
  if (!operation) throw new Error('the operation does not exist');
  return operation.progress;
};
const readProgressFacts = ({ workflow_id }: { workflow_id: WorkflowId }) =>
  db.query<{ data: Record<string, unknown> }>(
    `select data
     from evidence
     where workflow_id = $1
       and kind = 'operation.progress'
     order by seq`,
    [workflow_id],
  );
const later = (seconds: number) => secondsLater(start, seconds);

test('writes a publication to the row, and to the evidence with its step', async () => {
  const run = await startTestOperation();
  await startStep(db, run, 'first', 1, executor, start);
  const parts = [{ name: 'disk', kind: 'part', state: 'Creating', tone: 'busy' as const }];
  await publishProgress(db, run, { message: 'making it', parts, retry_after_seconds: 20 }, executor, start);
  expect(await readProgress(run, later(5))).toMatchObject({ message: 'making it', parts, retry_after_seconds: 15 });
  const [fact] = await readProgressFacts(run);
  expect(fact?.data).toMatchObject({ phase: 'first', step: 1, total_steps: 2, parts });
});

test('says in each phase of a launch that a first boot has no estimate', async () => {
  const plan = ['launch:pull_image', 'launch:create'].map((name) => ({ ...steps[0], name, label: name }));
  const run = await startTestOperation(undefined, plan as typeof steps);
  await startStep(db, run, 'launch:pull_image', 1, executor, start);
  await publishProgress(db, run, { message: 'pulling' }, executor, start);
  const { message } = await readProgress(run, later(20));
  expect(message).toBe('pulling · no earlier boot to compare with, so no estimate');
});

test('a changed counter in the message is not an advance while the mark stays', async () => {
  const { workflow_id } = await startTestOperation();
  const publishAndRead = async (message: string, mark: string, after: number, retry_after_seconds?: number) => {
    await publishProgress(db, { workflow_id }, { message, mark, retry_after_seconds }, executor, later(after));
    const [row] = await db.query<{ progress: { message: string; advanced_at: string; patient_until?: string } }>(
      'select progress from operations where workflow_id = $1',
      [workflow_id],
    );
    expect(row?.progress.message).toBe(message);
    return [row?.progress.advanced_at, row?.progress.patient_until];
  };
  const isoAt = (after: number) => later(after).toISOString();
  expect(await publishAndRead('Creating · 1s', 'Creating', 1, 10)).toEqual([isoAt(1), isoAt(11)]);
  expect(await publishAndRead('Creating · 2s', 'Creating', 2, 10)).toEqual([isoAt(1), isoAt(11)]);
  expect(await publishAndRead('Running · 3s', 'Running', 3)).toEqual([isoAt(3), undefined]);
});

test('writes neither the row nor the evidence if one of them fails', async () => {
  const run = await startTestOperation();
  await publishProgress(db, run, { message: 'before' }, executor, start);
  await db.query(`alter table evidence add constraint unrecordable check (summary <> 'unrecordable') not valid`);
  await db.query(
    `alter table operations add constraint unwritable check (progress ->> 'message' <> 'unwritable') not valid`,
  );
  for (const message of ['unrecordable', 'unwritable'])
    await expect(publishProgress(db, run, { message }, executor, start)).rejects.toThrow(message);
  expect((await readProgress(run)).message).toBe('before');
  expect(await readProgressFacts(run)).toHaveLength(1);
});

test('repeats an unchanged message only every 15 s, without an advance', async () => {
  const run = await startTestOperation();
  const publish = (message: string, seconds: number) => publishProgress(db, run, { message }, executor, later(seconds));
  for (const [message, seconds] of [
    ['a', 0],
    ['a', 1],
    ['a', 14],
    ['b', 14.5],
    ['b', 40],
  ] as const)
    await publish(message, seconds);
  expect((await readProgressFacts(run)).map(({ data }) => data.message)).toEqual(['a', 'b', 'b']);
  const [row] = await db.query<{ progress: { advanced_at: string; updated_at: string } }>(
    'select progress from operations where workflow_id = $1',
    [run.workflow_id],
  );
  expect(row?.progress.advanced_at).toBe(later(14.5).toISOString());
  expect(row?.progress.updated_at).toBe(later(40).toISOString());
});

test('expects the durations that the pool had recorded when the operation was queued', async () => {
  const { node_id } = await fleet.node();
  const before = await startTestOperation(node_id);
  for (const seconds of [10, 20, 30]) {
    const run = await startTestOperation(node_id);
    await startStep(db, run, 'first', 1, executor, start);
    await endStep(db, run, 'first', { status: 'done', tries: 1 }, executor, later(seconds));
  }
  const run = await startTestOperation(node_id);
  expect((await readProgress(before)).expected).toBeNull();
  expect((await readProgress(run)).expected).toEqual({ p50_seconds: 20, p90_seconds: 28, samples: 3 });
  const [other] = await db.query<{ usual: number | null }>(
    `select usual_seconds as usual
     from steps
     where workflow_id = $1
       and name = 'second'`,
    [run.workflow_id],
  );
  expect(other?.usual).toBe(10);
  const wire = await readOperation(db, run.workflow_id, wholeFleet, start);
  // The estimate of the plan is not shown for a step without samples.
  expect(wire?.steps.map(({ usual_seconds }) => usual_seconds)).toEqual([20, null]);
});

test('keeps the percentage in another attempt, and restarts the clock of the step', async () => {
  const run = await startTestOperation();
  await startStep(db, run, 'first', 1, executor, start);
  const error = { code: 'broken', owner_layer: 'node', message: 'broken', step: 'first' };
  await endStep(db, run, 'first', { status: 'failed', tries: 1, error }, executor, later(30));
  await finishOperation(db, run, { status: 'failed', error }, executor, later(30));
  const failed = await readProgress(run, later(30));
  expect(failed.percent).toBeGreaterThan(40);
  await db.transaction((tx) => requeue(tx, run.workflow_id, later(3600), null));
  const again = { ...run, attempt: 2 };
  await becomeExecutor(db, again, executor, later(3600));
  await startStep(db, again, 'first', 1, executor, later(3600));
  expect(await readProgress(run, later(3601))).toMatchObject({ percent: failed.percent, step_elapsed_seconds: 1 });
});

test('does not lower the percentage when the clock is set back', async () => {
  const run = await startTestOperation();
  await startStep(db, run, 'first', 1, executor, start);
  const { percent } = await readProgress(run, later(20));
  expect(await readProgress(run, later(1))).toMatchObject({ percent, step_elapsed_seconds: 1 });
});

test('keeps the percentage of a step that fails, through its retries, and continues once it recovers', async () => {
  const run = await startTestOperation();
  const error = { code: 'engine_away', owner_layer: 'operator', message: 'the engine is away' };
  await startStep(db, run, 'first', 1, executor, start);
  const failed = { status: 'retrying', error, retry_at: later(20) } as const;
  await endStep(db, run, 'first', { ...failed, tries: 1 }, executor, later(10));
  const { percent } = await readProgress(run, later(10));
  await startStep(db, run, 'first', 2, executor, later(20));
  expect(await readProgress(run, later(25))).toMatchObject({ percent, message: error.message });
  await endStep(db, run, 'first', { ...failed, tries: 2 }, executor, later(30));
  expect(await readProgress(run, later(500))).toMatchObject({ percent, failing: { ...error, tries: 2, seconds: 490 } });

  await publishProgress(db, run, { message: 'pulling', error: null }, executor, later(510));
  const recovered = await readProgress(run, later(511));
  expect(recovered).not.toHaveProperty('failing');
  expect(recovered.percent).toBeGreaterThan(percent);
  // The step has worked for 11 s. Without the failure it would be nearly at its end.
  expect(recovered.percent).toBeLessThan(percent + 2);
  await endStep(db, run, 'first', { status: 'done', tries: 2 }, executor, later(512));
  await startStep(db, run, 'second', 1, executor, later(512));
  const second = await readProgress(run, later(522));
  expect(second.percent).toBeCloseTo(50 + percent, 0);
});
