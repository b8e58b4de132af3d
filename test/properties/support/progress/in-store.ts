/** Runs the same histories through the real store: rows, transactions, replicas, samples. */
import { moment, secondsLater } from '../../../../src/base/clock.ts';
import { newCorrelationId, newReplicaId, newWorkflowId, type WorkflowId } from '../../../../src/base/ids.ts';
import { progressOf } from '../../../../src/lifecycle/progress/progress.ts';
import { wholeFleet } from '../../../../src/lifecycle/visibility.ts';
import { claimExecution, type Executor, finishOperation } from '../../../../src/store/operations/executions.ts';
import {
  markCancelling,
  operationRow,
  readOperation,
  requeue,
  stepRows,
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

const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];

export async function openStoreHistories() {
  const database = await testDatabase();
  const db = openDatabase({ url: database.url });
  const fleet = await testFleet(db);
  const { node_id, pool } = await fleet.node();
  const startMs = fleet.now().getTime();
  let runs = 0;

  const replica = (now: Date): Promise<Executor> =>
    registerReplica(db, {
      replica_id: newReplicaId(fleet.clock),
      host: 'here',
      pid: 1,
      address: 'http://here',
      version: '1',
      started_at: now,
      lease_until: secondsLater(now, 1e6),
    });

  /** Records a step of another operation of the pool. */
  const addSample = (step: string, seconds: number, now: Date) =>
    db.query('insert into step_samples (workflow_id, step, pool, seconds, at) values ($1, $2, $3, $4, $5)', [
      newWorkflowId(fleet.clock),
      step,
      pool,
      seconds,
      now,
    ]);

  async function run({ plan, events }: History): Promise<void> {
    runs++;
    let nowMs = startMs;
    let latestMs = startMs;
    const now = () => moment(nowMs);
    const execution: { workflow_id: WorkflowId; attempt: number } = {
      workflow_id: newWorkflowId(fleet.clock),
      attempt: 1,
    };
    await db.query('delete from step_samples');
    for (const [i, { took }] of plan.entries())
      for (const seconds of took) await addSample(names[i] ?? '', seconds, now());
    const steps = plan.map(({ usual_seconds }, i) => {
      const name = names[i] ?? '';
      return { name, label: name, usual_seconds, within_seconds: null };
    });
    const fresh = { kind: 'test', revision: 1, tenant: null, actor: null, params: {}, steps, node_id };
    const ids = { workflow_id: execution.workflow_id, correlation_id: newCorrelationId() };
    await db.transaction((tx) => queueOperation(tx, { ...fresh, ...ids }, now()));
    let executor = await replica(now());
    await claimExecution(db, execution, executor, now());
    const watcher = createWatcher();

    const row = async () => {
      const found = await operationRow(db, execution.workflow_id);
      if (!found) throw new Error('the operation is gone');
      return found;
    };
    const isOpen = async () => ['running', 'cancelling'].includes((await row()).status);
    const current = async () =>
      (await stepRows(db, execution.workflow_id)).find(({ status }) => !/done|skipped/.test(status));
    const error = { code: 'broken', owner_layer: 'node', message: 'broken' };
    const takeOver = async () => {
      nowMs = Math.max(nowMs, latestMs);
      if (!(await isOpen())) return;
      executor = await replica(now());
      await claimExecution(db, execution, executor, now());
    };

    const moves: { [K in ProgressEvent['kind']]: (event: Extract<ProgressEvent, { kind: K }>) => unknown } = {
      'time passes': ({ seconds }) => {
        nowMs += Math.round(seconds * 1000);
      },
      'the clock is set back': ({ seconds }) => {
        nowMs -= Math.round(seconds * 1000);
      },
      'other operations end': async ({ took }) => {
        for (const { name } of steps) await addSample(name, took, now());
      },
      'it reports': async ({ message, parts, retry }) => {
        if (!(await isOpen())) return;
        const shown = names
          .slice(0, parts)
          .map((name) => ({ name, kind: 'part', state: message, tone: 'busy' as const }));
        const report = { message, parts: shown, ...(retry && { retry_after_seconds: 20 }) };
        await publishProgress(db, execution, report, executor, now());
      },
      'a server restarts': takeOver,
      'another server takes over': takeOver,
      'its step begins': async () => {
        const step = await current();
        if (step && (await isOpen())) await startStep(db, execution, step.name, 1, executor, now());
      },
      'a try fails': async () => {
        const step = await current();
        if (step?.status !== 'running' || !(await isOpen())) return;
        const again = { status: 'retrying', tries: 1, error, retry_at: secondsLater(now(), 5) } as const;
        await endStep(db, execution, step.name, again, executor, now());
      },
      'its step is done': async () => {
        const step = await current();
        if (!step || step.status === 'pending' || !(await isOpen())) return;
        await endStep(db, execution, step.name, { status: 'done', tries: 1 }, executor, now());
      },
      'its step is not needed': async () => {
        const step = await current();
        if (step?.status !== 'pending' || !(await isOpen())) return;
        await endStep(db, execution, step.name, { status: 'skipped', tries: 0 }, executor, now());
      },
      'it fails': async () => {
        const step = await current();
        if (!step || !(await isOpen())) return;
        await endStep(db, execution, step.name, { status: 'failed', tries: 1, error }, executor, now());
        const failure = { ...error, step: step.name };
        await finishOperation(db, execution, { status: 'failed', error: failure }, executor, now());
      },
      'it is cancelled': async () => {
        const { status } = await row();
        if (status === 'running') await db.transaction((tx) => markCancelling(tx, execution.workflow_id, now(), null));
        if (status === 'cancelling') await finishOperation(db, execution, { status: 'cancelled' }, executor, now());
      },
      'it is tried again': async () => {
        const again = await db.transaction((tx) => requeue(tx, execution.workflow_id, now(), null));
        if (!again) return;
        execution.attempt = again.attempt;
        await claimExecution(db, execution, executor, now());
      },
      'it succeeds': async () => {
        const isBusy = /running|waiting/.test((await current())?.status ?? '');
        if ((await row()).status !== 'running' || isBusy) return;
        await finishOperation(db, execution, { status: 'succeeded' }, executor, now());
      },
    };

    const check = async () => {
      latestMs = Math.max(latestMs, nowMs);
      const found = await readOperation(db, execution.workflow_id, wholeFleet, now());
      if (!found) throw new Error('the operation is gone');
      const never = { advanced_at: null, retry_at: null, patient_until: null };
      const facts = { ...never, now: now(), steps: await stepRows(db, execution.workflow_id) };
      const progress = progressOf({ ...(await row()), ...facts });
      if (found.progress.step !== progress.step) throw new Error('the progress differs from its rows');
      watcher.check(found.progress, { ...(await row()), ...facts });
    };
    await check();
    for (const event of events) {
      await (moves[event.kind] as (event: ProgressEvent) => unknown)(event);
      await check();
    }
  }

  return {
    run,
    runs: () => runs,
    async [Symbol.asyncDispose]() {
      await db.close();
      await database.drop();
    },
  };
}
