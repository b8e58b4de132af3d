/** Processor time of a process to the nanosecond, of all its threads: hundredths of a second are too coarse for short turns. */
import { readdirSync, readFileSync } from 'node:fs';

/** Time on a processor is the first of the scheduler's figures. */
function nanosecondsOf(pid: number, thread: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
  } catch (error) {
    // One that ended between the look at the list and this one.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 0;
    throw error;
  }
}

export const processorSeconds = (pid: number): number =>
  readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + nanosecondsOf(pid, thread), 0) / 1e9;
