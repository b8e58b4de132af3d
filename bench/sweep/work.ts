/**
 * How long something took, and how much work it was: the time for which this process and the database's had a processor.
 * On a machine with other things to do the clock counts those as well; the work stays the same.
 */
import { systemClock } from '../../src/base/clock.ts';
import { childrenOf, readOr } from '../harness/process-table.ts';

export interface Spent {
  ms: number;
  workMs: number;
}

export type Stopwatch = (act: () => Promise<unknown>) => Promise<Spent>;

const processorMs = (pid: number) => Number(readOr(`/proc/${pid}/schedstat`, '0').split(' ')[0]) / 1e6;

/** Every connection has a process of its own, a child of the one that listens. */
const databaseMs = (postmaster: number): Map<number, number> =>
  new Map(childrenOf(postmaster).map((pid) => [pid, processorMs(pid)]));

/** One that has ended meanwhile had been idle; one that is new did all its work meanwhile. */
function grownBy(before: Map<number, number>, after: Map<number, number>): number {
  let sum = 0;
  for (const [pid, ms] of after) sum += ms - (before.get(pid) ?? 0);
  return sum;
}

export const stopwatch =
  (postmaster: number): Stopwatch =>
  async (act) => {
    const databaseBefore = databaseMs(postmaster);
    const ownBefore = process.cpuUsage();
    const startedMs = systemClock.monotonicMs();
    await act();
    const ms = systemClock.monotonicMs() - startedMs;
    const own = process.cpuUsage(ownBefore);
    return { ms, workMs: (own.user + own.system) / 1000 + grownBy(databaseBefore, databaseMs(postmaster)) };
  };
