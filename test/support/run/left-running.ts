/**
 * Tracks the servers and engines that a test file started in its process, so that the next file of
 * the worker finds none of them running.
 */
const key = Symbol.for('slipway.test.left-running');
type Stop = () => Promise<void>;

function runningServices(): Set<Stop> {
  // Kept on globalThis, because a file that mocks modules loads this one twice.
  const globals = globalThis as { [key]?: Set<Stop> };
  globals[key] ??= new Set();
  return globals[key];
}

/** Registers a stop function and returns it wrapped, so that it runs only once. */
export function registerStop(stop: Stop): Stop {
  const once = async () => {
    if (runningServices().delete(once)) await stop();
  };
  runningServices().add(once);
  return once;
}

export async function stopLeftovers(): Promise<void> {
  for (const stop of runningServices()) await stop();
}
