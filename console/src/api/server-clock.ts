/**
 * The console's only clock: the server's time as this browser knows it, and one tick a second that everything which
 * counts up or down shares. Deadlines are the server's, so a laptop whose clock is wrong must not miscount them.
 */
import { useSyncExternalStore } from 'react';
import { systemClock } from '../../../src/base/clock.ts';

const tickMs = 1000;
/** `Date` headers have whole seconds, so a smaller difference is only rounding. */
const trustedDifferenceMs = 1500;

let offsetMs = 0;

/**
 * Learns the server's time from a reply's `Date` header. It was stamped at some time between the question and now, and a reply
 * that was long on its way says nothing against our own clock.
 */
export function noteServerDate(header: string | null, askedMs: number, nowMs: number): void {
  const stamped = header === null ? Number.NaN : Date.parse(header) + 500;
  if (Number.isNaN(stamped)) return;
  const isOurs = stamped > askedMs - trustedDifferenceMs && stamped < nowMs + trustedDifferenceMs;
  offsetMs = isOurs ? 0 : stamped - nowMs;
}

export const serverNowMs = (): number => systemClock.nowMs() + offsetMs;

const listeners = new Set<() => void>();
let lastTickMs = 0;
let ticking = false;

function tick(): void {
  lastTickMs = serverNowMs();
  for (const listener of listeners) listener();
  ticking = listeners.size > 0;
  if (ticking) systemClock.after(tickMs - (lastTickMs % tickMs), tick);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (!ticking) {
    ticking = true;
    lastTickMs = serverNowMs();
    systemClock.after(tickMs - (lastTickMs % tickMs), tick);
  }
  return () => listeners.delete(listener);
}

const present = () => {
  if (!ticking) lastTickMs = serverNowMs();
  return lastTickMs;
};

/** What `words` makes of the present, second by second; the component renders again only when the words change. */
export const useTicking = <T extends string | number | boolean>(words: (nowMs: number) => T): T =>
  useSyncExternalStore(subscribe, () => words(present()));
