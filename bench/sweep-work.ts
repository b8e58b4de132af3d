/**
 * How long something took, and how much work it was: the time for which this process and the database's had a processor.
 * On a machine with other things to do the clock counts those as well; the work stays the same.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { systemClock } from '../src/base/clock.ts';

export interface Spent {
  ms: number;
  workMs: number;
}

export type Stopwatch = (act: () => Promise<unknown>) => Promise<Spent>;

/** A process that ends between being listed and being read did nothing more that matters. */
function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error) return otherwise;
    throw error;
  }
}

const parentOf = (pid: string) => Number(readOr(`/proc/${pid}/stat`, ') ? 0').split(') ').at(-1)?.split(' ')[1]);

const processorMs = (pid: string) => Number(readOr(`/proc/${pid}/schedstat`, '0').split(' ')[0]) / 1e6;

/** Every connection has a process of its own, a child of the one that listens. */
const databaseMs = (postmaster: number): Map<string, number> =>
  new Map(
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && parentOf(name) === postmaster)
      .map((pid) => [pid, processorMs(pid)]),
  );

/** One that has ended meanwhile had been idle; one that is new did all its work meanwhile. */
function grownBy(before: Map<string, number>, after: Map<string, number>): number {
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
