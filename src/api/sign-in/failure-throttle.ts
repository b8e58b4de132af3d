/**
 * Slows down addresses that send unknown tokens. Only failures are counted and refused: a valid
 * token always works, even from such an address. The length of tokens protects against guessing.
 */
import type { Clock } from '../../base/clock.ts';

const maxWaitSeconds = 300;
const forgetAfterMs = 15 * 60_000;
/** If there are more addresses, the one that failed longest ago is forgotten. */
const maxAddresses = 10_000;

interface Failures {
  count: number;
  last_ms: number;
  wait_until_ms: number;
}

export interface FailureThrottle {
  /** Counts a failure. Returns the seconds that the address has to wait, or undefined if none. */
  countFailure(address: string): number | undefined;
  size(): number;
}

export function createFailureThrottle(clock: Clock, allowed: number): FailureThrottle {
  const byAddress = new Map<string, Failures>();

  const failuresOf = (address: string, nowMs: number): Failures => {
    const stored = byAddress.get(address);
    byAddress.delete(address);
    const failures =
      stored && nowMs - stored.last_ms < forgetAfterMs ? stored : { count: 0, last_ms: nowMs, wait_until_ms: 0 };
    // Insert at the end, so that the first key is the address that failed longest ago.
    byAddress.set(address, failures);
    const [oldest] = byAddress.keys();
    if (byAddress.size > maxAddresses && oldest !== undefined) byAddress.delete(oldest);
    return failures;
  };

  return {
    countFailure(address) {
      const nowMs = clock.monotonicMs();
      const failures = failuresOf(address, nowMs);
      failures.last_ms = nowMs;
      // Failures during the wait do not lengthen it, so that a program with a wrong token is not
      // locked out for longer and longer.
      if (nowMs >= failures.wait_until_ms) {
        failures.count++;
        if (failures.count <= allowed) return undefined;
        const waitSeconds = Math.min(2 ** (failures.count - allowed - 1), maxWaitSeconds);
        failures.wait_until_ms = nowMs + waitSeconds * 1000;
      }
      return (failures.wait_until_ms - nowMs) / 1000;
    },
    size: () => byAddress.size,
  };
}
