/** Runs the same histories on the real store, with its rows, transactions, replicas and samples. */
import { moment, secondsLater } from '../../../../src/base/clock.ts';
import { newCorrelationId, newReplicaId, newWorkflowId, type WorkflowId } from '../../../../src/base/ids.ts';
import { progressOf } from '../../../../src/lifecycle/progress/progress.ts';
import { wholeFleet } from '../../../../src/lifecycle/visibility.ts';
import { becomeExecutor, type Executor, finishOperation } from '../../../../src/store/operations/executions.ts';
import {
  markCancelling,
  readOperation,
  readOperationRow,
  readStepRows,
  requeue,
} from '../../../../src/store/operations/operations.ts';
import { publishProgress } from '../../../../src/store/operations/publish-progress.ts';
import { queueOperation } from '../../../../src/store/operations/queue-operation.ts';
import { registerReplica } from '../../../../src/store/operations/replicas.ts';
import { endStep, startStep } from '../../../../src/store/operations/steps.ts';
import { openDatabase } from '../../../../src/store/pg/database.ts';
import { testFleet } from '../../../../src/store/testing/fleet.ts';
import { testDatabase } from '../../../support/database.ts';
import type { History, ProgressEvent } from './events.ts';
import { createWatcher } from './watcher.ts';

const stepNames = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];

export async function openStoreHistories() {
  const database = await testDatabase();
  const db = openDatabase({ url: database.url });
  const fleet = await testFleet(db);
  const { node_id, pool } = await fleet.node();
  const startMs = fleet.now().getTime();
  let runCount = 0;

  const openReplica = (now: Date): Promise<Executor> =>
    registerReplica(db, {
      replica_id: newReplicaId(fleet.clock),
      host: 'here',
      pid: 1,
      address: 'http://here',
      version: '1',
      started_at: now,
      lease_until: secondsLater(now, 1e6),
    });

  /** Records the duration of a step in another operation of the pool. */
  const addSample = (step: string, seconds: number, now: Date) =>
    db.query('insert into step_samples (workflow_id, step, pool, seconds, at) values ($1, $2, $3, $4, $5)', [
      newWorkflowId(fleet.clock),
      step,
      pool,
      seconds,
      now,
    ]);

  async function run({ plan, events }: History): Promise<void> {
    runCount++;
    let nowMs = startMs;
    let latestMs = startMs;
    const now = () => moment(nowMs);
    const execution: { workflow_id: WorkflowId; attempt: number } = {
      workflow_id: newWorkflowId(fleet.clock),
      attempt: 1,
    };
    await db.query('delete from step_samples');
    for (const [i, { sample_seconds }] of plan.entries())
      for (const seconds of sample_seconds) await addSample(stepNames[i] ?? '', seconds, now());
    const steps = plan.map(({ usual_seconds }, i) => {
      const name = stepNames[i] ?? '';
      return { name, label: name, usual_seconds, within_seconds: null };
    });
    const newOperation = { kind: 'test', revision: 1, tenant: null, actor: null, params: {}, steps, node_id };
    const ids = { workflow_id: execution.workflow_id, correlation_id: newCorrelationId() };
    await db.transaction((tx) => queueOperation(tx, { ...newOperation, ...ids }, now()));
    let executor = await openReplica(now());
    await becomeExecutor(db, execution, executor, now());
    const watcher = createWatcher();

    const readRow = async () => {
      const row = await readOperationRow(db, execution.workflow_id);
      if (!row) throw new Error('the operation does not exist');
      return row;
    };
    const isOpen = async () => ['running', 'cancelling'].includes((await readRow()).status);
    const readCurrentStep = async () =>
      (await readStepRows(db, execution.workflow_id)).find(({ status }) => !/done|skipped/.test(status));
    const error = { code: 'broken', owner_layer: 'node', message: 'broken' };
    const takeOver = async () => {
      nowMs = Math.max(nowMs, latestMs);
      if (!(await isOpen())) return;
      executor = await openReplica(now());
      await becomeExecutor(db, execution, executor, now());
    };

    const effects: { [K in ProgressEvent['kind']]: (event: Extract<ProgressEvent, { kind: K }>) => unknown } = {
      'time passes': ({ seconds }) => {
        nowMs += Math.round(seconds * 1000);
      },
      'the clock is set back': ({ seconds }) => {
        nowMs -= Math.round(seconds * 1000);
      },
      'other operations end': async ({ seconds }) => {
        for (const { name } of steps) await addSample(name, seconds, now());
      },
      'the operation reports': async ({ message, parts, retry }) => {
        if (!(await isOpen())) return;
        const reportedParts = stepNames
          .slice(0, parts)
          .map((name) => ({ name, kind: 'part', state: message, tone: 'busy' as const }));
        const report = { message, parts: reportedParts, ...(retry && { retry_after_seconds: 20 }) };
        await publishProgress(db, execution, report, executor, now());
      },
      'a server restarts': takeOver,
      'another server takes over': takeOver,
      'the step begins': async () => {
        const step = await readCurrentStep();
        if (step && (await isOpen())) await startStep(db, execution, step.name, 1, executor, now());
      },
      'a try fails': async () => {
        const step = await readCurrentStep();
        if (step?.status !== 'running' || !(await isOpen())) return;
        const retry = { status: 'retrying', tries: 1, error, retry_at: secondsLater(now(), 5) } as const;
        await endStep(db, execution, step.name, retry, executor, now());
      },
      'the step reports an error': async () => {
        if (await isOpen()) await publishProgress(db, execution, { message: 'Failing', error }, executor, now());
      },
      'the step recovers': async () => {
        if (await isOpen()) await publishProgress(db, execution, { message: 'Running', error: null }, executor, now());
      },
      'the step is done': async () => {
        const step = await readCurrentStep();
        if (!step || step.status === 'pending' || !(await isOpen())) return;
        await endStep(db, execution, step.name, { status: 'done', tries: 1 }, executor, now());
      },
      'the step is skipped': async () => {
        const step = await readCurrentStep();
        if (step?.status !== 'pending' || !(await isOpen())) return;
        await endStep(db, execution, step.name, { status: 'skipped', tries: 0 }, executor, now());
      },
      'the operation fails': async () => {
        const step = await readCurrentStep();
        if (!step || !(await isOpen())) return;
        await endStep(db, execution, step.name, { status: 'failed', tries: 1, error }, executor, now());
        const failure = { ...error, step: step.name };
        await finishOperation(db, execution, { status: 'failed', error: failure }, executor, now());
      },
      'the operation is cancelled': async () => {
        const { status } = await readRow();
        if (status === 'running') await db.transaction((tx) => markCancelling(tx, execution.workflow_id, now(), null));
        if (status === 'cancelling') await finishOperation(db, execution, { status: 'cancelled' }, executor, now());
      },
      'the operation is retried': async () => {
        const requeued = await db.transaction((tx) => requeue(tx, execution.workflow_id, now(), null));
        if (!requeued) return;
        execution.attempt = requeued.attempt;
        await becomeExecutor(db, execution, executor, now());
      },
      'the operation succeeds': async () => {
        const isBusy = /running|waiting/.test((await readCurrentStep())?.status ?? '');
        if ((await readRow()).status !== 'running' || isBusy) return;
        await finishOperation(db, execution, { status: 'succeeded' }, executor, now());
      },
    };

    const check = async () => {
      latestMs = Math.max(latestMs, nowMs);
      const operation = await readOperation(db, execution.workflow_id, wholeFleet, now());
      if (!operation) throw new Error('the operation does not exist');
      const noActivity = {
        ...{ advanced_at: null, retry_at: null, patient_until: null },
        ...{ failing_since: null, failed_seconds: 0 },
      };
      const facts = { ...noActivity, now: now(), steps: await readStepRows(db, execution.workflow_id) };
      const progress = progressOf({ ...(await readRow()), ...facts });
      if (operation.progress.step !== progress.step)
        throw new Error('the step of the shown progress differs from the rows');
      watcher.check(operation.progress, { ...(await readRow()), ...facts });
    };
    await check();
    for (const event of events) {
      await (effects[event.kind] as (event: ProgressEvent) => unknown)(event);
      await check();
    }
  }

  return {
    run,
    runCount: () => runCount,
    async [Symbol.asyncDispose]() {
      await db.close();
      await database.drop();
    },
  };
}
