/**
 * A stage is one step of an operation's plan as a person sees it: begun and ended durably, skipped when an earlier attempt
 * already finished it. Inside it, engine steps are named `<stage>:<detail>`, so that a retry is shown on the right stage.
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
import { saveDriverState } from '../../store/agents/instances.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { reachedIn } from '../../store/operations/operation-progress.ts';
import { operationRow } from '../../store/operations/operations.ts';
import { endStep, reachPhase, startStep } from '../../store/operations/steps.ts';
import type { OperationServices } from './services.ts';
import type { Subject } from './subject.ts';

export interface PlanStep {
  name: string;
  label: string;
  usual_seconds: number | null;
  /** What is known of it before this pool has a history of its own. */
  expected?: StepHistory;
  /** When it is overdue, counted from its start. Null where a deadline on the row it waits for decides. */
  within_seconds: number | null;
}

export const stageOf = (step: string): string => step.split(':')[0] ?? step;

/** Does a stage's work; if it fails, the stage has failed, and why. */
export async function failingStage<T>(
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
  if (begun.over) return;
  await failingStage(context, services, name, work);
  await context.step(`${name}:end`, async () => {
    await endStep(db, context, name, { status: 'done', tries: 1 }, executor, now(clock));
    return null;
  });
}

/** A stage that this run does not need. */
export async function skipStage(context: OperationContext, services: OperationServices, name: string): Promise<void> {
  await context.step(`${name}:skip`, async () => {
    await endStep(services.db, context, name, { status: 'skipped', tries: 0 }, services.executor, now(services.clock));
    return null;
  });
}

export interface DriveOptions {
  policy: RetryPolicy;
  /** What it is about, for the evidence. */
  subject: Pick<Subject, 'node_instance_id' | 'ids'>;
  /**
   * Each try begins the work anew and is then waited for, as a script that is run again: its tries are those of all rounds together, else
   * one that always fails would be begun for ever. Where only looking failed, each round has its own.
   */
  begins_anew?: boolean;
  /** That nobody waits for it any more. It is asked during long waits, so that an operation does not outlive its purpose by hours. */
  isOver?(): Promise<boolean>;
}

type Answered = Exclude<DriverOutcome, DriverFailure> & { failed_tries?: number; answered_at_ms?: number };

/** A shorter wait is over before anybody has read about it. */
const worthTellingSeconds = 5;

/** A provider may say "come again in an hour"; a shorter wait is soon over by itself. */
const longSeconds = 30;
const lookEverySeconds = 300;

/** Counted from the answer, which is on record, so that a restart does not begin the wait anew. */
async function rest(
  context: OperationContext,
  name: string,
  { retry_seconds, answered_at_ms = 0 }: { retry_seconds: number; answered_at_ms?: number },
  { isOver }: DriveOptions,
): Promise<void> {
  if (!isOver || retry_seconds < longSeconds) return context.sleep(retry_seconds);
  const until = moment(answered_at_ms + retry_seconds * 1000);
  // A change of the node wakes it, so it need not look often.
  await context.waitFor(name, async () => (await isOver()) || undefined, { until, poll_seconds: lookEverySeconds });
}

const leftOf = ({ tries, base_seconds, max_seconds }: RetryPolicy, failed: number): RetryPolicy => ({
  tries: tries - failed,
  base_seconds: Math.min(base_seconds * 2 ** failed, max_seconds),
  max_seconds,
});

/**
 * Calls a driver until it is done. The driver never waits inside, so between its calls the operation sleeps durably and
 * hears a cancel. What the driver wants to remember is kept with the instance before the next call.
 */
export async function drive(
  context: OperationContext,
  services: OperationServices,
  name: string,
  call: () => Promise<DriverOutcome>,
  options: DriveOptions,
): Promise<DriverDone> {
  let failed = 0;
  for (let round = 1; ; round++) {
    const outcome = await context.step(
      `${name}:${round}`,
      async ({ try: tried }) => {
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
        return { ...answer, failed_tries: tried - 1, answered_at_ms: services.clock.nowMs() } as unknown as Json;
      },
      leftOf(options.policy, failed),
    );
    const answer = outcome as unknown as Answered;
    if (options.begins_anew) failed += answer.failed_tries ?? 0;
    if (answer.outcome === 'done') return answer;
    await context.emit({
      message: answer.message,
      parts: answer.parts ?? [],
      ...problemIn(answer),
      ...(answer.mark !== undefined && { mark: answer.mark }),
      ...(answer.put_off &&
        answer.retry_seconds >= worthTellingSeconds && { retry_after_seconds: answer.retry_seconds }),
    } as unknown as Json);
    await rest(context, `${name}:${round}:rest`, answer, options);
  }
}

/** Where a driver says which phase it is in, whatever went wrong before is over; a wait without either says nothing new. */
function problemIn({ error, message, phase }: DriverWait): { error?: OperationProblem | null } {
  if (error) return { error: { ...error, message } };
  return phase === undefined ? {} : { error: null };
}

/** Told in the driver's own step: a step of its own would be repeated by a crash just the same. */
async function recordDriverAnswer(
  context: OperationContext,
  services: OperationServices,
  step: string,
  { ids }: Pick<Subject, 'ids'>,
  answer: { outcome: 'done' | 'wait' | 'failed'; message: string; mark?: string; parts?: unknown },
): Promise<void> {
  // A provider that is asked each second mostly answers the same; what stands on the row already is no news.
  const said = answer.outcome === 'wait' ? (await operationRow(services.db, context.workflow_id))?.progress : undefined;
  if (said && reachedIn(said) === reachedIn(answer) && isDeepStrictEqual(said.parts ?? [], answer.parts ?? [])) return;
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

/** Keeps a fact in a recorded step of its own. */
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
