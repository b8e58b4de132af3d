/**
 * The methods that an operation uses, built on a run's journal. Every decision depends only on the
 * input and on recorded results, so that a replay takes the same path.
 */
import {
  type Json,
  OperationCancelled,
  type OperationContext,
  type StepAnswer,
  type StepCall,
  StepFailed,
} from './engine.ts';
import { defaultRetry } from './retry.ts';
import { type ExecutionParts, identity, notify, type TryResult, tryCheck, tryStep } from './tries.ts';

export function createOperationContext(parts: ExecutionParts): OperationContext {
  const { run, journal, listener, log } = parts;
  const uses = new Map<string, number>();
  let currentCall: string | undefined;
  let isInsideEffect = false;
  /** Cancel is thrown once. After that, steps and waits work as usual, so the run can clean up. */
  let cancelThrown = false;

  /**
   * A repeated name gets an ordinal, because a key must identify one effect. Otherwise a client
   * token would be used twice.
   */
  const keyFor = (name: string): string => {
    const use = (uses.get(name) ?? 0) + 1;
    uses.set(name, use);
    return use === 1 ? name : `${name}#${use}`;
  };

  /**
   * Two concurrent calls would race for positions in the journal, and a replay could swap their
   * results.
   */
  const runAlone = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    if (currentCall !== undefined) {
      throw new Error(
        `operation ${run.kind} called ${what} while ${currentCall} was not finished; await one at a time`,
      );
    }
    currentCall = what;
    try {
      return await work();
    } finally {
      currentCall = undefined;
    }
  };

  const throwCancelled = (): never => {
    cancelThrown = true;
    throw new OperationCancelled();
  };

  const record = (step: string, number: number, effect: () => Promise<TryResult>): Promise<TryResult> =>
    journal.record({ step, try: number }, async () => {
      isInsideEffect = true;
      try {
        return await effect();
      } finally {
        isInsideEffect = false;
      }
    });

  const sleep = async (seconds: number) => {
    if (await journal.receive(cancelThrown ? 'silence' : 'cancel', seconds)) throwCancelled();
  };

  /**
   * Tries until there is a result. The journal returns the result of this same step, so callers may
   * cast it to the step's type.
   */
  const tryUntilSettled = async (
    name: string,
    attempt: (step: string, number: number) => Promise<TryResult>,
    wait: (seconds: number) => Promise<unknown>,
  ): Promise<StepAnswer> => {
    const step = keyFor(name);
    for (let number = 1; ; number++) {
      const tried = await record(step, number, () => attempt(step, number));
      if (tried.status === 'done') return tried.value;
      if (tried.status === 'passed') return undefined;
      if (tried.status === 'cancelled') return throwCancelled();
      if (tried.status === 'failed') throw new StepFailed({ step, tries: number, ...tried.problem });
      await wait(tried.wait_seconds);
    }
  };

  return {
    workflow_id: run.workflow_id,
    attempt: run.attempt,

    step: <T extends StepAnswer>(name: string, work: (call: StepCall) => Promise<T>, policy = defaultRetry) =>
      runAlone(`step ${name}`, async () => {
        const attempt = (step: string, number: number) =>
          tryStep(parts, { step, number, can_cancel: !cancelThrown }, () => work({ try: number, step }), policy);
        return (await tryUntilSettled(name, attempt, sleep)) as T;
      }),

    sleep: (seconds) => runAlone('sleep', () => sleep(seconds)),

    waitFor: <T extends Json>(
      name: string,
      check: () => Promise<T | undefined>,
      options: { until: Date; poll_seconds: number; shielded?: boolean },
    ) =>
      runAlone(`waitFor ${name}`, async () => {
        const attempt = (step: string, number: number) =>
          tryCheck(parts, { step, number, can_cancel: !cancelThrown && !options.shielded }, check, options);
        return (await tryUntilSettled(name, attempt, (seconds) => journal.receive('wake', seconds))) as T | undefined;
      }),

    async emit(progress) {
      const publish = () => notify(parts, 'emitted', () => listener.emitted(run, progress));
      // Inside a step, progress needs no journal entry of its own.
      if (isInsideEffect) return publish();
      await runAlone('emit', () => journal.record({ step: 'engine:emit', try: 1 }, () => publish().then(() => null)));
    },

    async isCancelled() {
      if (cancelThrown) return true;
      if (isInsideEffect) return journal.wasCancelSent();
      const readCancel = async () => {
        try {
          return await journal.wasCancelSent();
        } catch (error) {
          log.warn(
            { ...identity(run), err: error },
            'could not check for a cancel; the next step or wait checks again',
          );
          return false;
        }
      };
      cancelThrown = await runAlone('isCancelled', () =>
        journal.record({ step: 'engine:cancelled', try: 1 }, readCancel),
      );
      return cancelThrown;
    },
  };
}
