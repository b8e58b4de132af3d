/** Waits until a condition holds, with a time limit. Tests never sleep for a fixed time. */
import { pause, systemClock } from '../../src/base/clock.ts';
import type { ErrorCode } from '../../src/contract/errors/errors.ts';

/** Polls less often as time passes, because polling itself loads a busy machine. */
const everyMs = (waitedMs: number) => Math.min(Math.max(waitedMs / 20, 10), 250);

const overloaded: ErrorCode = 'server_busy';

/** Compares the code, because a test file that mocks modules loads the client's class twice. */
const isOverload = (error: unknown): boolean =>
  (error as { problem?: { code?: string } } | undefined)?.problem?.code === overloaded;

/** Retries a check that an overloaded server refuses; any other error ends the wait. */
export async function until<T>(
  what: string,
  check: () => T | undefined | Promise<T | undefined>,
  options: { seconds?: number; every_ms?: number } = {},
): Promise<NonNullable<T>> {
  const maxMs = (options.seconds ?? 60) * 1000;
  const startedMs = systemClock.monotonicMs();
  for (;;) {
    let overload: unknown;
    try {
      const answer = await check();
      if (answer) return answer as NonNullable<T>;
    } catch (error) {
      if (!isOverload(error)) throw error;
      overload = error;
    }
    const waitedMs = systemClock.monotonicMs() - startedMs;
    if (waitedMs > maxMs)
      throw new Error(`waited ${maxMs / 1000} s for ${what}${overload ? '; the server was overloaded' : ''}`, {
        cause: overload,
      });
    await pause(systemClock, options.every_ms ?? everyMs(waitedMs));
  }
}
