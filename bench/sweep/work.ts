/**
 * Measures elapsed time and work. Work is the CPU time of this process and of the database; other
 * load on the machine affects the elapsed time but hardly the work.
 */
import { systemClock } from '../../src/base/clock.ts';
import { childrenOf, readOr } from '../harness/process-table.ts';

export interface Cost {
  ms: number;
  workMs: number;
}

export type Stopwatch = (act: () => Promise<unknown>) => Promise<Cost>;

const processorMs = (pid: number) => Number(readOr(`/proc/${pid}/schedstat`, '0').split(' ')[0]) / 1e6;

/**
 * The CPU time by process. Every connection has a process of its own, a child of the postmaster.
 */
const databaseMs = (postmaster: number): Map<number, number> =>
  new Map(childrenOf(postmaster).map((pid) => [pid, processorMs(pid)]));

/** Ignores processes that ended between the readings; new processes count in full. */
function growthBetween(before: Map<number, number>, after: Map<number, number>): number {
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
    return { ms, workMs: (own.user + own.system) / 1000 + growthBetween(databaseBefore, databaseMs(postmaster)) };
  };
