/**
 * The five methods an operation is written against, on top of a run's journal. Every decision here depends only on the
 * input and on recorded answers, so that a replay decides the same; clocks and dice are read only inside recorded effects.
 */
import { type Clock, moment } from '../base/clock.ts';
import {
  type EngineListener,
  type Json,
  OperationCancelled,
  type OperationContext,
  type OperationRun,
  type RetryPolicy,
  type StepCall,
  StepFailed,
} from './engine.ts';
import type { EngineLog } from './engine-log.ts';
import { classify, type Problem, retryDelaySeconds, usualRetry } from './retry.ts';
import type { RunJournal } from './run-journal.ts';

export interface ExecutionParts {
  run: OperationRun;
  journal: RunJournal;
  listener: EngineListener;
  clock: Clock;
  log: EngineLog;
  random: () => number;
}

/** What one try of a step, or one check of a wait, answered; recorded, so errors are data. */
type Tried =
  | { status: 'done'; value?: Json }
  | { status: 'failed'; problem: Problem }
  | { status: 'again'; problem: Problem | null; now_ms: number; again_at_ms: number }
  | { status: 'passed' }
  | { status: 'cancelled' };

export function createOperationContext(parts: ExecutionParts): OperationContext {
  const { run, journal, listener, clock, log, random } = parts;
  const uses = new Map<string, number>();
  let busyWith: string | undefined;
  let insideEffect = false;
  /** Cancel is thrown once; after that the operation tidies up, and its steps and waits must work. */
  let cancelHeard = false;

  const moments = () => ({ now_ms: clock.nowMs() });

  /** A name used again gets its ordinal: the step's key must name one effect, or a client token would be spent twice. */
  const keyFor = (name: string): string => {
    const use = (uses.get(name) ?? 0) + 1;
    uses.set(name, use);
    return use === 1 ? name : `${name}#${use}`;
  };

  /** Two calls at once would race for their places in the journal, and a replay could give each the other's answer. */
  const alone = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    if (busyWith !== undefined) {
      throw new Error(`operation ${run.kind} called ${what} while ${busyWith} was not finished; await one at a time`);
    }
    busyWith = what;
    try {
      return await work();
    } finally {
      busyWith = undefined;
    }
  };

  const hear = (): never => {
    cancelHeard = true;
    throw new OperationCancelled();
  };

  /** The owner's bookkeeping never stops the work; `ended`, which must not be lost, is insisted on elsewhere. */
  const tell = async (what: string, call: () => Promise<void>) => {
    if (journal.stopped.aborted) return;
    try {
      await call();
    } catch (error) {
      log.warn({ ...identity(run), err: error }, `the engine's listener failed at ${what}`);
    }
  };

  const effect = async (work: () => Promise<Tried>): Promise<Tried> => {
    insideEffect = true;
    try {
      return await work();
    } finally {
      insideEffect = false;
    }
  };

  /** Runs one try; whatever it throws comes back as data. */
  const attempt = async (listens: boolean, before: () => Promise<void>, work: () => Promise<Json | undefined>) => {
    try {
      if (listens && !cancelHeard && (await journal.cancelSent())) return { kind: 'cancelled' } as const;
      await before();
      return { kind: 'value', value: await work() } as const;
    } catch (error) {
      return classify(error);
    }
  };

  const tryStep = (step: string, n: number, work: () => Promise<Json | undefined>, policy: RetryPolicy) =>
    effect(async (): Promise<Tried> => {
      const tried = await attempt(true, () => tell('stepStarted', () => listener.stepStarted(run, step, n)), work);
      if (tried.kind === 'cancelled') return { status: 'cancelled' };
      if (tried.kind === 'value') {
        await tell('stepEnded', () => listener.stepEnded(run, step, { status: 'done', tries: n }));
        return { status: 'done', value: tried.value };
      }
      const { problem } = tried;
      if (tried.kind === 'final' || n >= policy.tries) {
        await tell('stepEnded', () => listener.stepEnded(run, step, { status: 'failed', tries: n, error: problem }));
        return { status: 'failed', problem };
      }
      const { now_ms } = moments();
      const again_at_ms = now_ms + retryDelaySeconds(policy, n, random) * 1000;
      const retry_at = moment(again_at_ms);
      await tell('stepEnded', () =>
        listener.stepEnded(run, step, { status: 'retrying', tries: n, error: problem, retry_at }),
      );
      return { status: 'again', problem, now_ms, again_at_ms };
    });

  const checkOnce = (
    step: string,
    n: number,
    check: () => Promise<Json | undefined>,
    options: { until: Date; poll_seconds: number; shielded: boolean },
  ) =>
    effect(async (): Promise<Tried> => {
      const started = () =>
        n > 1
          ? Promise.resolve()
          : tell('stepStarted', () => listener.stepStarted(run, step, 1, { waiting_until: options.until }));
      const tried = await attempt(!options.shielded, started, check);
      if (tried.kind === 'cancelled') return { status: 'cancelled' };
      if (tried.kind === 'final') {
        const error = tried.problem;
        await tell('stepEnded', () => listener.stepEnded(run, step, { status: 'failed', tries: n, error }));
        return { status: 'failed', problem: error };
      }
      if (tried.kind === 'value' && tried.value !== undefined) {
        await tell('stepEnded', () => listener.stepEnded(run, step, { status: 'done', tries: n }));
        return { status: 'done', value: tried.value };
      }
      const problem = tried.kind === 'retryable' ? tried.problem : null;
      const { now_ms } = moments();
      if (now_ms >= options.until.getTime()) {
        await tell('stepEnded', () =>
          listener.stepEnded(run, step, { status: 'done', tries: n, ...(problem && { error: problem }) }),
        );
        return { status: 'passed' };
      }
      const again_at_ms = Math.min(now_ms + options.poll_seconds * 1000, options.until.getTime());
      if (problem) {
        const retry_at = moment(again_at_ms);
        await tell('stepEnded', () =>
          listener.stepEnded(run, step, { status: 'retrying', tries: n, error: problem, retry_at }),
        );
      }
      return { status: 'again', problem, now_ms, again_at_ms };
    });

  const sleep = async (seconds: number) => {
    if (await journal.receive(cancelHeard ? 'silence' : 'cancel', seconds)) hear();
  };

  return {
    workflow_id: run.workflow_id,
    attempt: run.attempt,

    step: <T extends Json | undefined>(name: string, work: (call: StepCall) => Promise<T>, policy = usualRetry) =>
      alone(`step ${name}`, async () => {
        const step = keyFor(name);
        for (let n = 1; ; n++) {
          const call = { try: n, step };
          const tried = await journal.record(call, () => tryStep(step, n, () => work(call), policy));
          if (tried.status === 'cancelled') return hear();
          if (tried.status === 'failed') throw new StepFailed({ step, tries: n, ...tried.problem });
          // The journal hands back what this very step returned, which is why its type is known.
          if (tried.status === 'done') return tried.value as T;
          if (tried.status === 'again') await sleep((tried.again_at_ms - tried.now_ms) / 1000);
        }
      }),

    sleep: (seconds) => alone('sleep', () => sleep(seconds)),

    waitFor: <T extends Json>(
      name: string,
      check: () => Promise<T | undefined>,
      options: { until: Date; poll_seconds: number; shielded?: boolean },
    ) =>
      alone(`waitFor ${name}`, async () => {
        const step = keyFor(name);
        const patience = { shielded: false, ...options };
        for (let n = 1; ; n++) {
          const tried = await journal.record({ step, try: n }, () => checkOnce(step, n, check, patience));
          if (tried.status === 'cancelled') return hear();
          if (tried.status === 'failed') throw new StepFailed({ step, tries: n, ...tried.problem });
          if (tried.status === 'done') return tried.value as T;
          if (tried.status === 'passed') return undefined;
          await journal.receive('wake', (tried.again_at_ms - tried.now_ms) / 1000);
        }
      }),

    async emit(progress) {
      const publish = () => tell('emitted', () => listener.emitted(run, progress));
      // Inside a step the step itself is the record.
      if (insideEffect) return publish();
      await alone('emit', () =>
        journal.record({ step: 'engine:emit', try: 1 }, async () => {
          await publish();
          return null;
        }),
      );
    },

    async cancelled() {
      if (cancelHeard) return true;
      if (insideEffect) return journal.cancelSent();
      const asked = await alone('cancelled', () =>
        journal.record({ step: 'engine:cancelled', try: 1 }, async () => {
          try {
            return await journal.cancelSent();
          } catch (error) {
            log.warn({ ...identity(run), err: error }, 'could not look for a cancel; the next wait looks again');
            return false;
          }
        }),
      );
      cancelHeard ||= asked;
      return asked;
    },
  };
}

/** The identifiers a log line about this run carries. */
export const identity = (run: OperationRun) => ({
  workflow_id: run.workflow_id,
  attempt: run.attempt,
  kind: run.kind,
});
