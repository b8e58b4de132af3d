/**
 * The five methods an operation is written against, on top of a run's journal. Every decision here depends only on the
 * input and on recorded answers, so that a replay decides the same.
 */
import {
  type Json,
  OperationCancelled,
  type OperationContext,
  type StepAnswer,
  type StepCall,
  StepFailed,
} from './engine.ts';
import { usualRetry } from './retry.ts';
import { type ExecutionParts, identity, type Tried, tell, tryCheck, tryStep } from './tries.ts';

export function createOperationContext(parts: ExecutionParts): OperationContext {
  const { run, journal, listener, log } = parts;
  const uses = new Map<string, number>();
  let busyWith: string | undefined;
  let insideEffect = false;
  /** Cancel is thrown once; after that the operation tidies up, and its steps and waits must work. */
  let cancelHeard = false;

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

  const record = (step: string, number: number, effect: () => Promise<Tried>): Promise<Tried> =>
    journal.record({ step, try: number }, async () => {
      insideEffect = true;
      try {
        return await effect();
      } finally {
        insideEffect = false;
      }
    });

  const sleep = async (seconds: number) => {
    if (await journal.receive(cancelHeard ? 'silence' : 'cancel', seconds)) hear();
  };

  /** Tries until there is an answer. The journal hands back what this very step returned: the callers know its type. */
  const settle = async (
    name: string,
    attempt: (step: string, number: number) => Promise<Tried>,
    rest: (seconds: number) => Promise<unknown>,
  ): Promise<StepAnswer> => {
    const step = keyFor(name);
    for (let number = 1; ; number++) {
      const tried = await record(step, number, () => attempt(step, number));
      if (tried.status === 'done') return tried.value;
      if (tried.status === 'passed') return undefined;
      if (tried.status === 'cancelled') return hear();
      if (tried.status === 'failed') throw new StepFailed({ step, tries: number, ...tried.problem });
      await rest(tried.wait_seconds);
    }
  };

  return {
    workflow_id: run.workflow_id,
    attempt: run.attempt,

    step: <T extends StepAnswer>(name: string, work: (call: StepCall) => Promise<T>, policy = usualRetry) =>
      alone(`step ${name}`, async () => {
        const attempt = (step: string, number: number) =>
          tryStep(parts, { step, number, hears_cancel: !cancelHeard }, () => work({ try: number, step }), policy);
        return (await settle(name, attempt, sleep)) as T;
      }),

    sleep: (seconds) => alone('sleep', () => sleep(seconds)),

    waitFor: <T extends Json>(
      name: string,
      check: () => Promise<T | undefined>,
      options: { until: Date; poll_seconds: number; shielded?: boolean },
    ) =>
      alone(`waitFor ${name}`, async () => {
        const attempt = (step: string, number: number) =>
          tryCheck(parts, { step, number, hears_cancel: !cancelHeard && !options.shielded }, check, options);
        return (await settle(name, attempt, (seconds) => journal.receive('wake', seconds))) as T | undefined;
      }),

    async emit(progress) {
      const publish = () => tell(parts, 'emitted', () => listener.emitted(run, progress));
      // Inside a step the step itself is the record.
      if (insideEffect) return publish();
      await alone('emit', () => journal.record({ step: 'engine:emit', try: 1 }, () => publish().then(() => null)));
    },

    async cancelled() {
      if (cancelHeard) return true;
      if (insideEffect) return journal.cancelSent();
      const look = async () => {
        try {
          return await journal.cancelSent();
        } catch (error) {
          log.warn({ ...identity(run), err: error }, 'could not look for a cancel; the next step or wait looks again');
          return false;
        }
      };
      cancelHeard = await alone('cancelled', () => journal.record({ step: 'engine:cancelled', try: 1 }, look));
      return cancelHeard;
    },
  };
}
