/**
 * One try of a step, and one check of a wait. Both run inside a recorded effect. Only code inside
 * an effect may read clocks or random numbers, and errors are returned as data, so that they can be
 * recorded.
 */
import { type Clock, moment, pause } from '../base/clock.ts';
import type { EngineListener, Json, OperationRun, RetryPolicy, StepAnswer } from './engine.ts';
import type { EngineLog } from './engine-log.ts';
import { classify, type Problem, retryDelaySeconds } from './retry.ts';
import { JournalUnavailable, neverSettle, type RunJournal } from './run-journal.ts';

/** The availability of the store that operations write to. */
export interface StoreAvailability {
  /**
   * Whether the error means that the store is unavailable. The same try is then repeated, without
   * counting as another try.
   */
  isUnavailable(error: unknown): boolean;
  /** How long the store was unavailable in total, including an outage that still lasts. */
  unavailableMs(): number;
}

/** Everything that one execution of a run uses. */
export interface ExecutionParts {
  run: OperationRun;
  journal: RunJournal;
  listener: EngineListener;
  clock: Clock;
  log: EngineLog;
  random: () => number;
  store?: StoreAvailability | undefined;
}

/** The ids for log lines about this run. */
export const identity = (run: OperationRun) => ({
  workflow_id: run.workflow_id,
  attempt: run.attempt,
  kind: run.kind,
});

export type TryResult =
  | { status: 'done'; value?: Json }
  | { status: 'failed'; problem: Problem }
  | { status: 'again'; wait_seconds: number }
  | { status: 'passed' }
  | { status: 'cancelled' };

interface Try {
  step: string;
  number: number;
  /**
   * Whether to end the step as cancelled, without running it, if a cancel was sent before this try.
   */
  can_cancel: boolean;
}

/** TypeScript distinguishes `void` from `undefined`; at run time they are the same. */
const dataOf = (answer: StepAnswer): Json | undefined => (answer === undefined ? undefined : (answer as Json));

/**
 * Calls the listener, and only logs a failure, so that a failing listener never stops the
 * operation. Only `executing` and `ended` are retried, in `execute-run.ts`.
 */
export async function notify(parts: ExecutionParts, callback: string, call: () => Promise<void>): Promise<void> {
  if (parts.journal.stopSignal.aborted) return;
  try {
    await call();
  } catch (error) {
    parts.log.warn({ ...identity(parts.run), err: error }, `the engine listener's callback "${callback}" failed`);
  }
}

const storePauseMs = 500;
/** If the store is available but refuses this statement for longer, the try has failed. */
const maxStoreWaitMs = 600_000;

async function attempt(
  parts: ExecutionParts,
  current: Try,
  announce: () => Promise<void>,
  work: () => Promise<StepAnswer>,
) {
  const { clock, journal, store } = parts;
  /** How long the store was available in total, so that an outage never counts against the try. */
  const availableMs = () => clock.monotonicMs() - (store?.unavailableMs() ?? 0);
  let giveUpMs: number | undefined;
  for (;;) {
    try {
      if (current.can_cancel && (await journal.wasCancelSent())) return { kind: 'cancelled' } as const;
      await notify(parts, 'stepStarted', announce);
      return { kind: 'value', value: dataOf(await work()) } as const;
    } catch (error) {
      const isUnavailable = error instanceof JournalUnavailable || store?.isUnavailable(error);
      giveUpMs ??= availableMs() + maxStoreWaitMs;
      if (!isUnavailable || availableMs() >= giveUpMs) return classify(error);
    }
    await pause(clock, storePauseMs, journal.stopSignal);
    if (journal.stopSignal.aborted) return neverSettle();
  }
}

export async function tryStep(
  parts: ExecutionParts,
  current: Try,
  work: () => Promise<StepAnswer>,
  policy: RetryPolicy,
): Promise<TryResult> {
  const { run, listener, clock } = parts;
  const { step, number: tries } = current;
  const reportEnd = (result: Parameters<EngineListener['stepEnded']>[2]) =>
    notify(parts, 'stepEnded', () => listener.stepEnded(run, step, result));

  const tried = await attempt(parts, current, () => listener.stepStarted(run, step, tries), work);
  if (tried.kind === 'cancelled') return { status: 'cancelled' };
  if (tried.kind === 'value') {
    await reportEnd({ status: 'done', tries });
    return { status: 'done', value: tried.value };
  }
  const { problem } = tried;
  if (tried.kind === 'final' || tries >= policy.tries) {
    await reportEnd({ status: 'failed', tries, error: problem });
    return { status: 'failed', problem };
  }
  const wait_seconds = retryDelaySeconds(policy, tries, parts.random);
  await reportEnd({ status: 'retrying', tries, error: problem, retry_at: moment(clock.nowMs() + wait_seconds * 1000) });
  return { status: 'again', wait_seconds };
}

export async function tryCheck(
  parts: ExecutionParts,
  current: Try,
  check: () => Promise<Json | undefined>,
  limits: { until: Date; poll_seconds: number },
): Promise<TryResult> {
  const { run, listener, clock } = parts;
  const { step, number: tries } = current;
  const reportEnd = (result: Parameters<EngineListener['stepEnded']>[2]) =>
    notify(parts, 'stepEnded', () => listener.stepEnded(run, step, result));
  const announce = async () => {
    if (tries === 1) await listener.stepStarted(run, step, tries, { waiting_until: limits.until });
  };

  const tried = await attempt(parts, current, announce, check);
  if (tried.kind === 'cancelled') return { status: 'cancelled' };
  if (tried.kind === 'final') {
    await reportEnd({ status: 'failed', tries, error: tried.problem });
    return { status: 'failed', problem: tried.problem };
  }
  if (tried.kind === 'value' && tried.value !== undefined) {
    await reportEnd({ status: 'done', tries });
    return { status: 'done', value: tried.value };
  }
  const now_ms = clock.nowMs();
  const until_ms = limits.until.getTime();
  const error = tried.kind === 'retryable' ? tried.problem : undefined;
  if (now_ms >= until_ms) {
    await reportEnd({ status: 'done', tries, error });
    return { status: 'passed' };
  }
  const retry_at = moment(Math.min(now_ms + limits.poll_seconds * 1000, until_ms));
  // Report only failing checks; having no result yet is normal.
  if (error) await reportEnd({ status: 'retrying', tries, error, retry_at });
  return { status: 'again', wait_seconds: (retry_at.getTime() - now_ms) / 1000 };
}
