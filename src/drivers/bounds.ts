/**
 * Bounds how long a call may delay its operation's reaction to a cancel. The upstream work goes on,
 * and the next call for the same machine joins it instead of repeating it.
 */
import { type Clock, pause } from '../base/clock.ts';
import type { DriverOutcome } from './driver.ts';

/** Less than the five seconds within which a cancel must take effect. */
const max_seconds = 4;
const soon_seconds = 1;

interface Work {
  call: string;
  answer: Promise<DriverOutcome>;
}

export interface Bounds {
  /** Undefined if there was no answer in time; a later answer is ignored. */
  within<T>(answer: Promise<T>): Promise<T | undefined>;
  /** Runs one piece of work per machine at a time; a repeated call joins it. */
  once(machine: string, call: string, work: () => Promise<DriverOutcome>): Promise<DriverOutcome>;
}

export function createBounds(clock: Clock, upstream: string): Bounds {
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
