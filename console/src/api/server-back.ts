/** Waits until the server answers again. */
import { type Clock, pause } from '../../../src/base/clock.ts';

async function isAnswering(signal: AbortSignal): Promise<boolean> {
  try {
    return (await fetch('/healthz', { cache: 'no-store', signal })).ok;
  } catch {
    return false;
  }
}

export async function waitForServer(clock: Clock, everyMs: number, signal: AbortSignal): Promise<void> {
  do await pause(clock, everyMs, signal);
  while (!signal.aborted && !(await isAnswering(signal)));
}
