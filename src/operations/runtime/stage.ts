/**
 * A stage is one step of an operation's plan, as shown to people. Its begin and end are recorded,
 * so an attempt skips a stage that an earlier attempt finished. Engine steps inside a stage are
 * named `<stage>:<detail>`, so that a retry is shown on the right stage.
 */
import { isDeepStrictEqual } from 'node:util';
import { moment, now } from '../../base/clock.ts';
import type { EvidenceLayer } from '../../contract/evidence/evidence.ts';
import type { EvidenceKind } from '../../contract/evidence/evidence-kinds.ts';
import type { DriverDone, DriverFailure, DriverOutcome, DriverWait } from '../../drivers/driver.ts';
import {
  type Json,
  OperationCancelled,
  type OperationContext,
  type RetryPolicy,
  StepError,
  StepFailed,
} from '../../engine/engine.ts';
import type { RecordedStepError as OperationProblem } from '../../lifecycle/findings/launch-blame.ts';
import type { StepHistory } from '../../lifecycle/progress/expectation.ts';
import { stageOf } from '../../lifecycle/progress/progress.ts';
import { saveDriverState } from '../../store/agents/instances.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { selectMark } from '../../store/operations/operation-progress.ts';
import { readOperationRow } from '../../store/operations/operations.ts';
import { endStep, reachPhase, startStep } from '../../store/operations/steps.ts';
import type { OperationServices } from './services.ts';
import type { Subject } from './subject.ts';

export interface PlanStep {
  name: string;
  label: string;
  usual_seconds: number | null;
  /** The expected durations, until the pool has recorded its own. */
  expected?: StepHistory;
  /** Seconds until the step is overdue. Null if a deadline on the awaited row decides. */
  within_seconds: number | null;
}

/** Runs the work of a stage and, if that fails, records the failure. */
export async function runOrRecordFailure<T>(
  context: OperationContext,
  { db, clock, executor }: OperationServices,
  name: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof OperationCancelled) throw error;
    const failure =
      error instanceof StepFailed
        ? error
        : new StepFailed({
            step: name,
            code: 'internal_error',
            owner_layer: 'control_plane',
            message: String(error),
            tries: 1,
          });
    await context.step(`${name}:failed`, async () => {
      const { code, owner_layer, message, tries } = failure;
      await endStep(
        db,
        context,
        name,
        { status: 'failed', tries, error: { code, owner_layer, message } },
        executor,
        now(clock),
      );
      return null;
    });
    throw failure;
  }
}

export async function stage(
  context: OperationContext,
  services: OperationServices,
  name: string,
  work: () => Promise<void>,
): Promise<void> {
  const { db, clock, executor } = services;
  const begun = await context.step(`${name}:begin`, () => startStep(db, context, name, 1, executor, now(clock)));
  // An earlier attempt finished this stage.
  if (begun.over) return;
  await runOrRecordFailure(context, services, name, work);
  await context.step(`${name}:end`, async () => {
    await endStep(db, context, name, { status: 'done', tries: 1 }, executor, now(clock));
    return null;
  });
}

/** Marks a stage that this run does not need as skipped. */
export async function skipStage(context: OperationContext, services: OperationServices, name: string): Promise<void> {
  await context.step(`${name}:skip`, async () => {
    await endStep(services.db, context, name, { status: 'skipped', tries: 0 }, services.executor, now(services.clock));
    return null;
  });
}

export interface DriveOptions {
  policy: RetryPolicy;
  /** The instance whose driver state is saved, and the ids for the evidence. */
  subject: Pick<Subject, 'node_instance_id' | 'ids'>;
  /**
   * True if each try starts the work again, such as a script. Tries are then counted over all
   * rounds, or a script that always fails would run forever. Otherwise each round has its own
   * tries.
   */
  restarts_work?: boolean;
  /** Polled during long waits. Returns true to end a wait whose result is no longer needed. */
  shouldStop?(): Promise<boolean>;
}

type RecordedAnswer = Exclude<DriverOutcome, DriverFailure> & { failed_tries?: number; answered_at_ms?: number };

/** The time until the next try is shown only for waits that are long enough to be read. */
const minShownWaitSeconds = 5;
/** A provider may make us wait for an hour, so long waits poll `shouldStop`. */
const minPolledWaitSeconds = 30;
const pollEverySeconds = 300;

/** Waits from the time of the recorded answer, so that a restart does not start the wait again. */
async function waitForNextCall(
  context: OperationContext,
  name: string,
  { retry_seconds, answered_at_ms = 0 }: { retry_seconds: number; answered_at_ms?: number },
  { shouldStop }: DriveOptions,
): Promise<void> {
  if (!shouldStop || retry_seconds < minPolledWaitSeconds) return context.sleep(retry_seconds);
  const until = moment(answered_at_ms + retry_seconds * 1000);
  // A change of the node wakes the wait, so rare polling is enough.
  await context.waitFor(name, async () => (await shouldStop()) || undefined, { until, poll_seconds: pollEverySeconds });
}

/** The policy after `failed` tries: fewer tries, with longer pauses. */
const remainingPolicy = ({ tries, base_seconds, max_seconds }: RetryPolicy, failed: number): RetryPolicy => ({
  tries: tries - failed,
  base_seconds: Math.min(base_seconds * 2 ** failed, max_seconds),
  max_seconds,
});

/**
 * Calls a driver until it is done. Drivers do not wait inside a call. The operation sleeps durably
 * between calls, and a cancellation takes effect there. The driver's state is saved before the next
 * call.
 */
export async function drive(
  context: OperationContext,
  services: OperationServices,
  name: string,
  call: () => Promise<DriverOutcome>,
  options: DriveOptions,
): Promise<DriverDone> {
  let failed = 0;
  let hadError = false;
  for (let round = 1; ; round++) {
    const outcome = await context.step(
      `${name}:${round}`,
      async ({ try: tryNumber }) => {
        const answer = await call();
        if (answer.phase) {
          const { db, executor, clock } = services;
          await reachPhase(db, context, stageOf(name), answer.phase, executor, now(clock));
        }
        if (answer.outcome === 'failed') {
          throw new StepError({
            code: answer.code,
            owner_layer: answer.owner_layer,
            message: answer.message,
            retryable: answer.retryable,
          });
        }
        if (answer.state) {
          await saveDriverState(services.db, options.subject.node_instance_id, answer.state);
        }
        await recordDriverAnswer(context, services, name, options.subject, answer);
        // A stage may continue after this call, so its error must not stay until the stage ends.
        // An emit inside a step needs no journal entry, so it does not disturb a replay.
        if (answer.outcome === 'done' && (hadError || tryNumber > 1))
          await context.emit({ message: answer.message, parts: answer.parts ?? [], error: null } as unknown as Json);
        return { ...answer, failed_tries: tryNumber - 1, answered_at_ms: services.clock.nowMs() } as unknown as Json;
      },
      remainingPolicy(options.policy, failed),
    );
    const answer = outcome as unknown as RecordedAnswer;
    if (options.restarts_work) failed += answer.failed_tries ?? 0;
    if (answer.outcome === 'done') return answer;
    hadError = answer.error !== undefined || failed > 0;
    await context.emit({
      message: answer.message,
      parts: answer.parts ?? [],
      // Work that is started again after a failed try has not recovered yet.
      ...(answer.error || failed === 0 ? errorChange(answer) : {}),
      ...(answer.mark !== undefined && { mark: answer.mark }),
      ...(answer.put_off &&
        answer.retry_seconds >= minShownWaitSeconds && { retry_after_seconds: answer.retry_seconds }),
    } as unknown as Json);
    await waitForNextCall(context, `${name}:${round}:rest`, answer, options);
  }
}

/** Returns the error that an answer shows. An answer without an error clears the shown one. */
export const errorChange = ({ error, message }: DriverWait): { error: OperationProblem | null } => ({
  error: error ? { ...error, message } : null,
});

/**
 * Called inside the driver's step. A separate step would also record the answer twice after a
 * crash.
 */
async function recordDriverAnswer(
  context: OperationContext,
  services: OperationServices,
  step: string,
  { ids }: Pick<Subject, 'ids'>,
  answer: { outcome: 'done' | 'wait' | 'failed'; message: string; mark?: string; parts?: unknown },
): Promise<void> {
  // Providers mostly repeat themselves, so skip an answer that the row already shows.
  const shown =
    answer.outcome === 'wait' ? (await readOperationRow(services.db, context.workflow_id))?.progress : undefined;
  if (shown && selectMark(shown) === selectMark(answer) && isDeepStrictEqual(shown.parts ?? [], answer.parts ?? []))
    return;
  await recordEvidence(services.db, [
    {
      at: now(services.clock),
      layer: 'provider',
      kind: `driver.${answer.outcome}`,
      summary: answer.message,
      data: { stage: stageOf(step), ...(answer.parts ? { parts: answer.parts } : {}) },
      ...ids,
      workflow_id: context.workflow_id,
    },
  ]);
}

/** Records one fact in an engine step of its own. */
export async function recordFact(
  context: OperationContext,
  services: OperationServices,
  step: string,
  subject: Subject,
  layer: EvidenceLayer,
  kind: EvidenceKind,
  summary: string,
  data: Record<string, unknown>,
): Promise<void> {
  await context.step(step, async () => {
    await recordEvidence(services.db, [
      { at: now(services.clock), layer, kind, summary, data, ...subject.ids, workflow_id: context.workflow_id },
    ]);
    return null;
  });
}
