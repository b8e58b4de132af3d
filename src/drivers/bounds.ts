/**
 * How long a call may keep its operation from hearing a cancel. What an upstream has begun is not cut off by that: it goes on, and
 * the next call about the same machine waits for it instead of asking the upstream again.
 */
import { type Clock, pause } from '../base/clock.ts';
import type { DriverOutcome } from './driver.ts';

/** Less than the five seconds within which a cancel is heard. */
const most_seconds = 4;
const soon_seconds = 1;

interface Work {
  call: string;
  answer: Promise<DriverOutcome>;
}

export interface Bounds {
  /** Undefined when there was no answer in time; one that comes later is not listened to. */
  within<T>(asked: Promise<T>): Promise<T | undefined>;
  /** One piece of work on a machine at a time; who asks for the same joins it. */
  once(machine: string, call: string, work: () => Promise<DriverOutcome>): Promise<DriverOutcome>;
}

export function createBounds(clock: Clock, upstream: string): Bounds {
  const underway = new Map<string, Work>();

  const raced = async <T>(asked: Promise<T>, over: Promise<undefined>): Promise<T | undefined> => {
    asked.catch(() => {});
    return Promise.race([asked, over]);
  };
  const inTime = async <T>(ask: (over: Promise<undefined>) => Promise<T>): Promise<T> => {
    const answered = new AbortController();
    try {
      return await ask(pause(clock, most_seconds * 1000, answered.signal).then(() => undefined));
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
    if (underway.get(machine) === work) underway.delete(machine);
  };

  return {
    within: (asked) => inTime((over) => raced(asked, over)),
    once: (machine, call, begin) =>
      inTime(async (over) => {
        const before = underway.get(machine);
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
        const work = underway.get(machine) ?? { call, answer: begin() };
        if (work.call !== call) return atWork(work.call);
        underway.set(machine, work);
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
