/**
 * Slows down addresses that send unknown tokens. Only failures are counted and refused: a valid
 * token always works, even from an address that guesses. The length of tokens protects against
 * guessing.
 */
import type { Clock } from '../../base/clock.ts';

const maxWaitSeconds = 300;
const forgetAfterMs = 15 * 60_000;
/** Beyond this, the address that failed longest ago is forgotten. */
const maxAddresses = 10_000;

interface Failures {
  count: number;
  last_ms: number;
  wait_until_ms: number;
}

export interface FailureThrottle {
  /** Counts a failure. Returns how many seconds the address has to wait; undefined for none. */
  failed(address: string): number | undefined;
  size(): number;
}

export function createFailureThrottle(clock: Clock, allowed: number): FailureThrottle {
  const byAddress = new Map<string, Failures>();

  const failuresOf = (address: string, nowMs: number): Failures => {
    const known = byAddress.get(address);
    byAddress.delete(address);
    const failures =
      known && nowMs - known.last_ms < forgetAfterMs ? known : { count: 0, last_ms: nowMs, wait_until_ms: 0 };
    // Re-inserted at the end, so that the first key is the one that failed longest ago.
    byAddress.set(address, failures);
    const [oldest] = byAddress.keys();
    if (byAddress.size > maxAddresses && oldest !== undefined) byAddress.delete(oldest);
    return failures;
  };

  return {
    failed(address) {
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
