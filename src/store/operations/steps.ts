/**
 * Starts and ends the steps of an executing operation. A stage is one step. If its driver reports
 * named phases, the stage has a step `<stage>:<phase>` for each of them.
 */
import { secondsBetween, secondsLater } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { StepStatus } from '../../lifecycle/model/states.ts';
import { phaseOf } from '../../lifecycle/progress/progress.ts';
import type { Database } from '../pg/database.ts';
import { buildOperationFact, type Executor, updateAsExecutor } from './executions.ts';
import { setStepError } from './operation-progress.ts';
import type { StepRow } from './operation-rows.ts';
import { amendOperation, amendStep, type DraftStep, type OperationDraft } from './operation-updates.ts';

type Run = { workflow_id: WorkflowId };

const hasEnded = ({ status }: { status: StepStatus }) => status === 'done' || status === 'skipped';

const stepsOf = ({ steps }: OperationDraft, stage: string): DraftStep[] =>
  steps.filter(({ name }) => name === stage || name.startsWith(`${stage}:`));

const openStepsOf = (draft: OperationDraft, stage: string): DraftStep[] =>
  stepsOf(draft, stage).filter((each) => !hasEnded(each));

function beginStep(draft: OperationDraft, step: DraftStep, tries: number, now: Date): void {
  const { started_at, within_seconds, status } = step;
  amendStep(draft, step, {
    status: 'running',
    tries,
    started_at: started_at ?? now,
    retry_at: null,
    finished_at: null,
    deadline_at: within_seconds === null ? null : secondsLater(now, within_seconds),
  });
  // Clear the last publication, because it was about the previous step or try.
  const at = now.toISOString();
  const { failing_since, failed_seconds } = draft.row.progress;
  const failures = status === 'pending' ? {} : { failing_since, failed_seconds };
  amendOperation(draft, { progress: { advanced_at: at, updated_at: at, ...failures } });
  const phase = phaseOf(step.name);
  const summary = `${phase} started${tries > 1 ? ` (try ${tries})` : ''}`;
  draft.facts.push(
    buildOperationFact(draft.row, 'workflow', 'step.started', summary, { step: phase, try: tries }, now),
  );
}

/** Starts the next open step of a stage. Returns `over` if all its steps have ended already. */
export const startStep = (
  db: Database,
  run: Run,
  stage: string,
  tries: number,
  executor: Executor,
  now: Date,
): Promise<{ over: boolean }> =>
  updateAsExecutor(db, run, executor, (draft) => {
    const [step] = openStepsOf(draft, stage);
    if (step) beginStep(draft, step, tries, now);
    return { over: step === undefined && stepsOf(draft, stage).length > 0 };
  });

/** Starts a stage unless it has started. Returns the pool of the operation. */
export const enterStage = (
  db: Database,
  run: Run,
  stage: string,
  executor: Executor,
  now: Date,
): Promise<{ pool: string | null }> =>
  updateAsExecutor(db, run, executor, (draft) => {
    const [step] = openStepsOf(draft, stage);
    if (step?.status === 'pending') beginStep(draft, step, 1, now);
    return { pool: draft.row.pool };
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
  retrying: 'failed and will be retried',
  skipped: 'was not needed',
} as const;

function sampleStep(draft: OperationDraft, { name, started_at }: DraftStep, now: Date): void {
  const { workflow_id, pool } = draft.row;
  if (pool === null || started_at === null) return;
  draft.samples.push({ workflow_id, step: name, pool, seconds: Math.max(0, secondsBetween(started_at, now)), at: now });
}

function endOneStep(draft: OperationDraft, step: DraftStep, ending: StepEnding, now: Date): void {
  const phase = phaseOf(step.name);
  const error = draft.redact.value(ending.error ? { ...ending.error, step: phase } : null) as StepRow['error'];
  const { status, tries, retry_at = null } = ending;
  const isRetried = status === 'retrying';
  amendStep(draft, step, {
    status: isRetried ? 'waiting' : status,
    tries: Math.max(step.tries, tries),
    finished_at: isRetried ? null : now,
    retry_at,
  });
  setStepError(draft, step, error, now);
  const hasAdvanced = status === 'done' || status === 'skipped';
  const at = now.toISOString();
  amendOperation(draft, {
    progress: { ...draft.row.progress, updated_at: at, ...(hasAdvanced && { advanced_at: at }) },
  });
  if (status === 'done') sampleStep(draft, step, now);
  const summary = `${phase} ${endedWords[status]}${ending.error ? `: ${ending.error.message}` : ''}`;
  const data = { step: phase, tries, ...(error && { error }) };
  draft.facts.push(buildOperationFact(draft.row, 'workflow', `step.${status}`, summary, data, now));
}

/** The ending of a phase that its stage moved past. A phase that never started was not needed. */
const endingOf = ({ started_at }: DraftStep): StepEnding =>
  started_at ? { status: 'done', tries: 1 } : { status: 'skipped', tries: 0 };

function endStage(draft: OperationDraft, stage: string, ending: StepEnding, now: Date): void {
  const [step, ...later] = openStepsOf(draft, stage);
  if (!step) return;
  endOneStep(draft, step, ending, now);
  // The end of a stage ends all its remaining phases.
  if (ending.status === 'done' || ending.status === 'skipped')
    for (const each of later) endOneStep(draft, each, endingOf(each), now);
}

export const endStep = (
  db: Database,
  run: Run,
  stage: string,
  ending: StepEnding,
  executor: Executor,
  now: Date,
): Promise<void> => updateAsExecutor(db, run, executor, (draft) => endStage(draft, stage, ending, now));

/** Ends a stage as done, and ends the stages that it makes unnecessary as skipped. */
export const completeStage = (
  db: Database,
  run: Run,
  stage: string,
  { skips, message }: { skips: readonly string[]; message?: string },
  executor: Executor,
  now: Date,
): Promise<void> =>
  updateAsExecutor(db, run, executor, (draft) => {
    endStage(draft, stage, { status: 'done', tries: 1 }, now);
    for (const each of skips) endStage(draft, each, { status: 'skipped', tries: 0 }, now);
    if (message !== undefined) amendOperation(draft, { progress: { ...draft.row.progress, message } });
  });

/**
 * Starts the phase that the driver reports and ends earlier phases of the stage. A phase that has
 * ended or was not planned is ignored, so that the progress bar never goes back.
 */
export const reachPhase = (
  db: Database,
  run: Run,
  stage: string,
  phase: string,
  executor: Executor,
  now: Date,
): Promise<void> =>
  updateAsExecutor(db, run, executor, (draft) => {
    const openSteps = openStepsOf(draft, stage);
    const index = openSteps.findIndex(({ name }) => phaseOf(name) === phase);
    const reached = openSteps[index];
    if (!reached) return;
    for (const each of openSteps.slice(0, index)) endOneStep(draft, each, endingOf(each), now);
    if (reached.status === 'pending') beginStep(draft, reached, 1, now);
  });
