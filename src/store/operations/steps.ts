/**
 * What the replica that executes an operation writes of its steps. A stage is one step, or several where its driver goes through
 * phases that people know by name: those are named `<stage>:<phase>`, and a stage is begun, tried and ended where it stands.
 */
import { secondsBetween, secondsLater } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { StepStatus } from '../../lifecycle/model/states.ts';
import { phaseOf } from '../../lifecycle/progress/progress.ts';
import type { Database } from '../pg/database.ts';
import { type Executor, factOfOperation, updateAsExecutor } from './executions.ts';
import type { StepRow } from './operation-rows.ts';
import { amendOperation, amendStep, type LedgerStep, type Page } from './operation-updates.ts';

type Run = { workflow_id: WorkflowId };

const isOver = ({ status }: { status: StepStatus }) => status === 'done' || status === 'skipped';

const stepsOf = ({ steps }: Page, stage: string): LedgerStep[] =>
  steps.filter(({ name }) => name === stage || name.startsWith(`${stage}:`));

const openStepsOf = (page: Page, stage: string): LedgerStep[] => stepsOf(page, stage).filter((each) => !isOver(each));

function begin(page: Page, step: LedgerStep, tries: number, now: Date): void {
  const { started_at, within_seconds } = step;
  amendStep(page, step, {
    status: 'running',
    tries,
    started_at: started_at ?? now,
    retry_at: null,
    finished_at: null,
    deadline_at: within_seconds === null ? null : secondsLater(now, within_seconds),
  });
  // What was said of the former step is not true of this one.
  const at = now.toISOString();
  amendOperation(page, { progress: { advanced_at: at, updated_at: at } });
  const phase = phaseOf(step.name);
  const summary = `${phase} started${tries > 1 ? ` (try ${tries})` : ''}`;
  page.facts.push(factOfOperation(page.row, 'workflow', 'step.started', summary, { step: phase, try: tries }, now));
}

/** Says whether there is nothing left to do in the stage. */
export const startStep = (
  db: Database,
  run: Run,
  stage: string,
  tries: number,
  executor: Executor,
  now: Date,
): Promise<{ over: boolean }> =>
  updateAsExecutor(db, run, executor, (page) => {
    const [step] = openStepsOf(page, stage);
    if (step) begin(page, step, tries, now);
    return { over: step === undefined && stepsOf(page, stage).length > 0 };
  });

/** Begins a stage unless it was begun: for who comes here again and again. Says whose machines the operation is about. */
export const enterStage = (
  db: Database,
  run: Run,
  stage: string,
  executor: Executor,
  now: Date,
): Promise<{ pool: string | null }> =>
  updateAsExecutor(db, run, executor, (page) => {
    const [step] = openStepsOf(page, stage);
    if (step?.status === 'pending') begin(page, step, 1, now);
    return { pool: page.row.pool };
  });

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

/** What failed or was not needed says nothing about how long a step takes. */
function sample(page: Page, { name, started_at }: LedgerStep, now: Date): void {
  const { workflow_id, pool } = page.row;
  if (pool === null || started_at === null) return;
  page.samples.push({ workflow_id, step: name, pool, seconds: Math.max(0, secondsBetween(started_at, now)), at: now });
}

function end(page: Page, step: LedgerStep, ended: StepEnding, now: Date): void {
  const phase = phaseOf(step.name);
  const error = page.redact.value(ended.error ? { ...ended.error, step: phase } : null) as StepRow['error'];
  const { status, tries, retry_at = null } = ended;
  const isTriedAgain = status === 'retrying';
  amendStep(page, step, {
    status: isTriedAgain ? 'waiting' : status,
    tries: Math.max(step.tries, tries),
    finished_at: isTriedAgain ? null : now,
    retry_at,
    error,
  });
  const advanced = status === 'done' || status === 'skipped';
  const at = now.toISOString();
  amendOperation(page, { progress: { ...page.row.progress, updated_at: at, ...(advanced && { advanced_at: at }) } });
  if (status === 'done') sample(page, step, now);
  const summary = `${phase} ${endedWords[status]}${ended.error ? `: ${ended.error.message}` : ''}`;
  const data = { step: phase, tries, ...(error && { error }) };
  page.facts.push(factOfOperation(page.row, 'workflow', `step.${status}`, summary, data, now));
}

/** A phase that was passed without a word was not needed. */
const passed = ({ started_at }: LedgerStep): StepEnding =>
  started_at ? { status: 'done', tries: 1 } : { status: 'skipped', tries: 0 };

function endStage(page: Page, stage: string, ended: StepEnding, now: Date): void {
  const [step, ...later] = openStepsOf(page, stage);
  if (!step) return;
  end(page, step, ended, now);
  // A stage that is over leaves none of its phases open.
  if (ended.status === 'done' || ended.status === 'skipped')
    for (const each of later) end(page, each, passed(each), now);
}

export const endStep = (
  db: Database,
  run: Run,
  stage: string,
  ended: StepEnding,
  executor: Executor,
  now: Date,
): Promise<void> => updateAsExecutor(db, run, executor, (page) => endStage(page, stage, ended, now));

/** A stage is done, and so these others are not needed; with what there is to say of it. */
export const completeStage = (
  db: Database,
  run: Run,
  stage: string,
  { skips, message }: { skips: readonly string[]; message?: string },
  executor: Executor,
  now: Date,
): Promise<void> =>
  updateAsExecutor(db, run, executor, (page) => {
    endStage(page, stage, { status: 'done', tries: 1 }, now);
    for (const each of skips) endStage(page, each, { status: 'skipped', tries: 0 }, now);
    if (message !== undefined) amendOperation(page, { progress: { ...page.row.progress, message } });
  });

/**
 * The driver says which of its phases it is in: those before it are over. One that it has left already, or that nobody planned,
 * changes nothing: a sub-phase that belongs to an earlier step never takes a bar back.
 */
export const reachPhase = (
  db: Database,
  run: Run,
  stage: string,
  phase: string,
  executor: Executor,
  now: Date,
): Promise<void> =>
  updateAsExecutor(db, run, executor, (page) => {
    const open = openStepsOf(page, stage);
    const place = open.findIndex(({ name }) => phaseOf(name) === phase);
    const reached = open[place];
    if (!reached) return;
    for (const each of open.slice(0, place)) end(page, each, passed(each), now);
    if (reached.status === 'pending') begin(page, reached, 1, now);
  });
