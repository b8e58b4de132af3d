/**
 * Reads how many seconds of CPU time the live threads of a process have used. `schedstat` counts
 * nanoseconds; the 10 ms ticks of `stat` are too coarse for short measurements.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** The first number in `schedstat` is the time on a CPU. */
function nanosecondsOf(pid: number, thread: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]);
  } catch (error) {
    // The thread ended after it was listed, or after the file was opened.
    if (error instanceof Error && 'code' in error && ['ENOENT', 'ESRCH'].includes(String(error.code))) return 0;
    throw error;
  }
}

export const processorSeconds = (pid: number): number =>
  readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + nanosecondsOf(pid, thread), 0) / 1e9;
