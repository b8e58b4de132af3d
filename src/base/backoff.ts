/** Exponential backoff with jitter, up to a maximum. */

export interface BackoffLimits {
  first_ms: number;
  max_ms: number;
}

export interface Backoff {
  nextMs(): number;
  reset(): void;
  tries(): number;
}

export function createBackoff({ first_ms, max_ms }: BackoffLimits, random: () => number = Math.random): Backoff {
  let tries = 0;
  return {
    nextMs() {
      const maxPauseMs = Math.min(max_ms, first_ms * 2 ** Math.min(tries, 30));
      tries += 1;
      return maxPauseMs * (0.5 + random() / 2);
    },
    reset() {
      tries = 0;
    },
    tries: () => tries,
  };
}

/**
 * Makes an interval up to 10 % shorter or longer. This spreads a fleet's heartbeats and stays well
 * inside the server's stale time.
 */
export const addJitter = (ms: number, random: () => number = Math.random) => ms * (0.9 + random() * 0.2);
