/**
 * Wraps the calls of a driver to its provider: each has a time limit, and an error of the provider
 * becomes an outcome with a code. After a timeout the upstream work goes on, and the next call for
 * the same machine joins it instead of repeating it.
 */
import { type Clock, pause } from '../base/clock.ts';
import { unseen } from './answers.ts';
import type {
  Diagnosis,
  DriverFailure,
  DriverOutcome,
  DriverTarget,
  DriverWait,
  Observation,
  OwnedResource,
} from './driver.ts';

/** Less than the five seconds within which a cancel must take effect. */
const max_seconds = 4;
const soon_seconds = 1;

interface Work {
  call: string;
  answer: Promise<DriverOutcome>;
}

interface Bounds {
  /** Undefined if there was no answer in time; a later answer is ignored. */
  within<T>(answer: Promise<T>): Promise<T | undefined>;
  /** Runs one piece of work per machine at a time; a repeated call joins it. */
  once(machine: string, call: string, work: () => Promise<DriverOutcome>): Promise<DriverOutcome>;
}

function createBounds(clock: Clock, upstream: string): Bounds {
  const running = new Map<string, Work>();

  const raced = async <T>(answer: Promise<T>, over: Promise<undefined>): Promise<T | undefined> => {
    answer.catch(() => {});
    return Promise.race([answer, over]);
  };
  const inTime = async <T>(ask: (over: Promise<undefined>) => Promise<T>): Promise<T> => {
    const answered = new AbortController();
    try {
      return await ask(pause(clock, max_seconds * 1000, answered.signal).then(() => undefined));
    } finally {
      answered.abort();
    }
  };
  const atWork = (call: string): DriverOutcome => ({
    outcome: 'wait',
    retry_seconds: soon_seconds,
    message: `${upstream} has not answered yet (${call}); it is still at work on this machine`,
    error: { code: 'not_answered', owner_layer: 'provider' },
  });
  const settle = (machine: string, work: Work) => {
    if (running.get(machine) === work) running.delete(machine);
  };

  return {
    within: (answer) => inTime((over) => raced(answer, over)),
    once: (machine, call, begin) =>
      inTime(async (over) => {
        const before = running.get(machine);
        if (before && before.call !== call) {
          const ended = await raced(
            before.answer.then(
              () => true,
              () => true,
            ),
            over,
          );
          if (!ended) return atWork(before.call);
          settle(machine, before);
        }
        const work = running.get(machine) ?? { call, answer: begin() };
        if (work.call !== call) return atWork(work.call);
        running.set(machine, work);
        try {
          const answer = await raced(work.answer, over);
          if (answer === undefined) return atWork(call);
          settle(machine, work);
          return answer;
        } catch (error) {
          settle(machine, work);
          throw error;
        }
      }),
  };
}

export interface DriverCallOptions<Host> {
  host: Host;
  clock: Clock;
  /** The provider's name in messages. */
  upstream: string;
  /** Turns an error of the provider into an outcome. Rethrows any other error, which is a bug. */
  failureOf(error: unknown, target: DriverTarget): DriverFailure | DriverWait | Promise<DriverFailure | DriverWait>;
  /** The answer after a timeout. */
  timeoutOf(target: DriverTarget): DriverWait;
  /** Refuses a call before it reaches the provider, such as one for another host. */
  refuse?(target: DriverTarget): DriverFailure | null;
  /** The redacted message of an error by `list_owned`. */
  describe(error: unknown): string | Promise<string>;
}

export function createDriverCalls<Host>(options: DriverCallOptions<Host>) {
  const { host, clock, upstream, failureOf, timeoutOf, refuse = () => null, describe } = options;
  const bounds = createBounds(clock, upstream);

  const asOutcome = async <Answer>(
    target: DriverTarget,
    call: () => Promise<Answer>,
  ): Promise<Answer | DriverFailure | DriverWait> => {
    try {
      return await call();
    } catch (error) {
      return failureOf(error, target);
    }
  };

  const read =
    <Rest extends unknown[], Answer>(call: (host: Host, target: DriverTarget, ...rest: Rest) => Promise<Answer>) =>
    async (target: DriverTarget, ...rest: Rest): Promise<Answer | DriverFailure | DriverWait> =>
      refuse(target) ??
      (await bounds.within(asOutcome(target, () => call(host, target, ...rest)))) ??
      timeoutOf(target);

  return {
    /**
     * A call that changes something: one at a time for each machine, and a repeated call joins it.
     */
    change:
      <Target extends DriverTarget>(
        name: string,
        call: (host: Host, target: Target) => Promise<DriverOutcome>,
      ): ((target: Target) => Promise<DriverOutcome>) =>
      async (target) =>
        refuse(target) ?? bounds.once(target.node_instance_id, name, () => asOutcome(target, () => call(host, target))),
    /** A call that only reads. */
    read,
    observe(call: (host: Host, target: DriverTarget) => Promise<Observation>) {
      const observe = read(call);
      return async (target: DriverTarget): Promise<Observation> => {
        const seen = await observe(target);
        return 'outcome' in seen ? unseen(seen.message) : seen;
      };
    },
    diagnose(call: (host: Host, target: DriverTarget) => Promise<Diagnosis>) {
      const diagnose = read(call);
      return async (target: DriverTarget): Promise<Diagnosis> => {
        const seen = await diagnose(target);
        return 'outcome' in seen ? { summary: seen.message, certain: false, attachments: [] } : seen;
      };
    },
    list:
      (call: (host: Host, installation_id: string) => Promise<OwnedResource[]>) =>
      async (installation_id: string): Promise<OwnedResource[]> => {
        const listed = await bounds.within(call(host, installation_id)).catch(async (error: unknown) => {
          throw new Error(`${upstream} could not list what it holds: ${await describe(error)}`);
        });
        if (!listed) throw new Error(`${upstream} did not list in time what it holds`);
        return listed;
      },
  };
}
