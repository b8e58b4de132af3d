/**
 * What the replica that executes an operation writes of its steps. A stage is one step, or several where its driver goes through
 * phases that people know by name: those are named `<stage>:<phase>`, and a stage is begun, tried and ended where it stands.
 */
import type { WorkflowId } from '../base/ids.ts';
import { phaseOf } from '../lifecycle/progress.ts';
import type { StepStatus } from '../lifecycle/states.ts';
import type { Database, Queryable, Transaction } from './database.ts';
import { type Executor, fenced, tellOfOperation } from './executions.ts';
import type { OperationRow, StepRow } from './operations.ts';
import { keepStepSample } from './step-samples.ts';

type Run = { workflow_id: WorkflowId };

const isOver = ({ status }: { status: StepStatus }) => status === 'done' || status === 'skipped';

const stepsOf = (db: Queryable, workflow_id: WorkflowId, stage: string): Promise<StepRow[]> =>
  db.query<StepRow>(
    `select * from steps where workflow_id = $1 and (name = $2 or starts_with(name, $2 || ':')) order by ordinal`,
    [workflow_id, stage],
    { often: true },
  );

/** Whether there is nothing left to do in a stage. */
export async function isStageOver(db: Queryable, workflow_id: WorkflowId, stage: string): Promise<boolean> {
  const steps = await stepsOf(db, workflow_id, stage);
  return steps.length > 0 && steps.every(isOver);
}

const say = (tx: Transaction, { workflow_id }: OperationRow, now: Date, said: object) =>
  tx.query(
    'update operations set progress = $2 where workflow_id = $1',
    [workflow_id, { ...said, updated_at: now.toISOString() }],
    { often: true },
  );

async function begin(tx: Transaction, row: OperationRow, { name }: StepRow, tries: number, now: Date): Promise<void> {
  await tx.query(
    `update steps set status = 'running', tries = $3, started_at = coalesce(started_at, $4), retry_at = null, finished_at = null,
       deadline_at = $4::timestamptz + make_interval(secs => within_seconds) where workflow_id = $1 and name = $2`,
    [row.workflow_id, name, tries, now],
    { often: true },
  );
  // What was said of the former step is not true of this one.
  await say(tx, row, now, { advanced_at: now.toISOString() });
  const step = phaseOf(name);
  const summary = `${step} started${tries > 1 ? ` (try ${tries})` : ''}`;
  await tellOfOperation(tx, row, 'workflow', 'step.started', summary, { step, try: tries }, now);
}

export function stepStarted(
  db: Database,
  run: Run,
  stage: string,
  tries: number,
  executor: Executor,
  now: Date,
): Promise<void> {
  return db.transaction(async (tx) => {
    const row = await fenced(tx, run.workflow_id, executor);
    const step = (await stepsOf(tx, run.workflow_id, stage)).find((each) => !isOver(each));
    if (step) await begin(tx, row, step, tries, now);
  });
}

export interface StepEnding {
  status: 'done' | 'failed' | 'retrying' | 'skipped';
  tries: number;
  error?: { code: string; owner_layer: string; message: string };
  retry_at?: Date;
}

const endedWords = {
  done: 'done',
  failed: 'failed',
  retrying: 'failed and will be tried again',
  skipped: 'was not needed',
} as const;

async function end(tx: Transaction, row: OperationRow, { name }: StepRow, ended: StepEnding, now: Date): Promise<void> {
  const step = phaseOf(name);
  const error = tx.redact.value(ended.error ? { ...ended.error, step } : null);
  const { status, tries, retry_at = null } = ended;
  await tx.query(
    `update steps set status = $3, tries = greatest(tries, $4), finished_at = $5, retry_at = $6, error = $7
     where workflow_id = $1 and name = $2`,
    [
      row.workflow_id,
      name,
      status === 'retrying' ? 'waiting' : status,
      tries,
      status === 'retrying' ? null : now,
      retry_at,
      error,
    ],
    { often: true },
  );
  const advanced = status === 'done' || status === 'skipped';
  await tx.query(
    'update operations set progress = progress || $2::jsonb where workflow_id = $1',
    [row.workflow_id, { updated_at: now.toISOString(), ...(advanced && { advanced_at: now.toISOString() }) }],
    { often: true },
  );
  if (status === 'done') await keepStepSample(tx, row, name);
  const summary = `${step} ${endedWords[status]}${ended.error ? `: ${ended.error.message}` : ''}`;
  await tellOfOperation(tx, row, 'workflow', `step.${status}`, summary, { step, tries, ...(error && { error }) }, now);
}

/** A phase that was passed without a word was not needed. */
const passed = ({ started_at }: StepRow): StepEnding =>
  started_at ? { status: 'done', tries: 1 } : { status: 'skipped', tries: 0 };

export function stepEnded(
  db: Database,
  run: Run,
  stage: string,
  ended: StepEnding,
  executor: Executor,
  now: Date,
): Promise<void> {
  return db.transaction(async (tx) => {
    const row = await fenced(tx, run.workflow_id, executor);
    const [step, ...later] = (await stepsOf(tx, run.workflow_id, stage)).filter((each) => !isOver(each));
    if (!step) return;
    await end(tx, row, step, ended, now);
    // A stage that is over leaves none of its phases open.
    if (ended.status === 'done' || ended.status === 'skipped')
      for (const each of later) await end(tx, row, each, passed(each), now);
  });
}

/**
 * The driver says which of its phases it is in: those before it are over. One that it has left already, or that nobody planned,
 * changes nothing: a sub-phase that belongs to an earlier step never takes a bar back.
 */
export function stepReached(
  db: Database,
  run: Run,
  stage: string,
  phase: string,
  executor: Executor,
  now: Date,
): Promise<void> {
  return db.transaction(async (tx) => {
    const row = await fenced(tx, run.workflow_id, executor);
    const open = (await stepsOf(tx, run.workflow_id, stage)).filter((each) => !isOver(each));
    const place = open.findIndex(({ name }) => phaseOf(name) === phase);
    const reached = open[place];
    if (!reached) return;
    for (const each of open.slice(0, place)) await end(tx, row, each, passed(each), now);
    if (reached.status === 'pending') await begin(tx, row, reached, 1, now);
  });
}
