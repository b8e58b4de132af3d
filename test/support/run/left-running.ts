/** What a test file started in its own process and has not stopped yet. The next file of the worker must find none of it. */
const key = Symbol.for('slipway.test.left-running');
type Stop = () => Promise<void>;

function running(): Set<Stop> {
  // Of the process: a file that replaces modules has this one twice.
  const process = globalThis as { [key]?: Set<Stop> };
  process[key] ??= new Set();
  return process[key];
}

/** Remembers it until it is stopped, by whoever does so first. */
export function registerStop(stop: Stop): Stop {
  const once = async () => {
    if (running().delete(once)) await stop();
  };
  running().add(once);
  return once;
}

export async function stopLeftovers(): Promise<void> {
  for (const stop of running()) await stop();
}
