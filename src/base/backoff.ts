/** How long to wait before the next try: twice as long each time, bounded, and never in step with the rest of a fleet. */

export interface Span {
  first_ms: number;
  most_ms: number;
}

export interface Backoff {
  nextMs(): number;
  reset(): void;
  tries(): number;
}

export function backoff({ first_ms, most_ms }: Span, random: () => number = Math.random): Backoff {
  let tries = 0;
  return {
    nextMs() {
      const full = Math.min(most_ms, first_ms * 2 ** Math.min(tries, 30));
      tries += 1;
      return full * (0.5 + random() / 2);
    },
    reset() {
      tries = 0;
    },
    tries: () => tries,
  };
}

/** Within a tenth of the assigned interval, so that beats of a fleet spread and the server's stale time still holds. */
export const jittered = (ms: number, random: () => number = Math.random) => ms * (0.9 + random() * 0.2);
