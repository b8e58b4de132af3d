/** Waits for a condition, with a bound; tests never sleep for a fixed time. */
import { pause, systemClock } from '../../src/base/clock.ts';

/** Often at first; then ever less, because asking costs a busy machine as much as what is asked for. */
const everyMs = (waitedMs: number) => Math.min(Math.max(waitedMs / 20, 10), 250);

export async function until<T>(
  what: string,
  check: () => T | undefined | Promise<T | undefined>,
  options: { seconds?: number; every_ms?: number } = {},
): Promise<NonNullable<T>> {
  const maxMs = (options.seconds ?? 60) * 1000;
  const started = systemClock.monotonicMs();
  for (;;) {
    const answer = await check();
    if (answer) return answer as NonNullable<T>;
    const waitedMs = systemClock.monotonicMs() - started;
    if (waitedMs > maxMs) throw new Error(`waited ${maxMs / 1000} s for ${what}`);
    await pause(systemClock, options.every_ms ?? everyMs(waitedMs));
  }
}
