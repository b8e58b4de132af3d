/**
 * Wraps the calls that a driver makes to its provider. Each call has a time limit, and a provider
 * error becomes an outcome with a code. A changing call keeps running after its timeout; the same
 * call for the same machine, when repeated, joins that run instead of starting a second one.
 */
import { type Clock, pause } from '../base/clock.ts';
import { unseenObservation } from './answers.ts';
import type {
  Diagnosis,
  DriverFailure,
  DriverOutcome,
  DriverTarget,
  DriverWait,
  Observation,
  OwnedResource,
} from './driver.ts';

/** A cancel must take effect within five seconds, so a call must return earlier. */
const timeout_seconds = 4;
const retry_seconds = 1;

interface RunningCall {
  call: string;
  answer: Promise<DriverOutcome>;
}

interface TimeLimits {
  /** Returns undefined if there was no answer in time. A later answer is ignored. */
  answerInTime<T>(answer: Promise<T>): Promise<T | undefined>;
  /**
   * Runs at most one call per machine. A repeated call joins the running one; a different call
   * waits for it to end first.
   */
  runAlone(machine: string, call: string, begin: () => Promise<DriverOutcome>): Promise<DriverOutcome>;
}

function createTimeLimits(clock: Clock, upstream: string): TimeLimits {
  const running = new Map<string, RunningCall>();

  const raceTimeout = async <T>(answer: Promise<T>, timeout: Promise<undefined>): Promise<T | undefined> => {
    // An answer that fails after the timeout has no other handler and would end the process.
    answer.catch(() => {});
    return Promise.race([answer, timeout]);
  };
  const withTimeout = async <T>(work: (timeout: Promise<undefined>) => Promise<T>): Promise<T> => {
    const endTimer = new AbortController();
    try {
      return await work(pause(clock, timeout_seconds * 1000, endTimer.signal).then(() => undefined));
    } finally {
      endTimer.abort();
    }
  };
  const stillRunningOutcome = (call: string): DriverOutcome => ({
    outcome: 'wait',
    retry_seconds,
    message: `${upstream} has not answered yet (${call}); the call is still running`,
    error: { code: 'not_answered', owner_layer: 'provider' },
  });
  const forget = (machine: string, ended: RunningCall) => {
    if (running.get(machine) === ended) running.delete(machine);
  };

  return {
    answerInTime: (answer) => withTimeout((timeout) => raceTimeout(answer, timeout)),
    runAlone: (machine, call, begin) =>
      withTimeout(async (timeout) => {
        const previous = running.get(machine);
        if (previous && previous.call !== call) {
          const hasEnded = await raceTimeout(
            previous.answer.then(
              () => true,
              () => true,
            ),
            timeout,
          );
          if (!hasEnded) return stillRunningOutcome(previous.call);
          forget(machine, previous);
        }
        // Another caller may have started a different call while this one waited.
        const current = running.get(machine) ?? { call, answer: begin() };
        if (current.call !== call) return stillRunningOutcome(current.call);
        running.set(machine, current);
        try {
          const answer = await raceTimeout(current.answer, timeout);
          if (answer === undefined) return stillRunningOutcome(call);
          forget(machine, current);
          return answer;
        } catch (error) {
          forget(machine, current);
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
  /** Turns a provider error into an outcome. Rethrows any other error, because it is a bug. */
  failureOf(error: unknown, target: DriverTarget): DriverFailure | DriverWait | Promise<DriverFailure | DriverWait>;
  /** The answer after a timeout. */
  timeoutOf(target: DriverTarget): DriverWait;
  /** Refuses a call before it reaches the provider, for example for a machine of another host. */
  refuse?(target: DriverTarget): DriverFailure | null;
  /** Returns the redacted message of an error that `list_owned` throws. */
  describe(error: unknown): string | Promise<string>;
}

export function createDriverCalls<Host>(options: DriverCallOptions<Host>) {
  const { host, clock, upstream, failureOf, timeoutOf, refuse = () => null, describe } = options;
  const limits = createTimeLimits(clock, upstream);

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
      (await limits.answerInTime(asOutcome(target, () => call(host, target, ...rest)))) ??
      timeoutOf(target);

  return {
    /** Wraps a call that changes a machine; see `runAlone`. */
    change:
      <Target extends DriverTarget>(
        name: string,
        call: (host: Host, target: Target) => Promise<DriverOutcome>,
      ): ((target: Target) => Promise<DriverOutcome>) =>
      async (target) =>
        refuse(target) ??
        limits.runAlone(target.node_instance_id, name, () => asOutcome(target, () => call(host, target))),
    /** Wraps a call that changes nothing, so several may run at once. */
    read,
    inspect(call: (host: Host, target: DriverTarget) => Promise<Observation>) {
      const inspect = read(call);
      return async (target: DriverTarget): Promise<Observation> => {
        const answer = await inspect(target);
        return 'outcome' in answer ? unseenObservation(answer.message) : answer;
      };
    },
    diagnose(call: (host: Host, target: DriverTarget) => Promise<Diagnosis>) {
      const diagnose = read(call);
      return async (target: DriverTarget): Promise<Diagnosis> => {
        const answer = await diagnose(target);
        return 'outcome' in answer ? { summary: answer.message, certain: false, attachments: [] } : answer;
      };
    },
    list:
      (call: (host: Host, installation_id: string) => Promise<OwnedResource[]>) =>
      async (installation_id: string): Promise<OwnedResource[]> => {
        const resources = await limits.answerInTime(call(host, installation_id)).catch(async (error: unknown) => {
          throw new Error(`${upstream} could not list its resources: ${await describe(error)}`);
        });
        if (!resources) throw new Error(`${upstream} did not list its resources in time`);
        return resources;
      },
  };
}
