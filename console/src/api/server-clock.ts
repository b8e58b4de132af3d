/**
 * The clock of everything on screen: the server's time, estimated from its replies, with one shared
 * tick a second. The server sets deadlines, so a wrong clock on a laptop must not miscount them.
 */
import { useSyncExternalStore } from 'react';
import { systemClock } from '../../../src/base/clock.ts';

const tickMs = 1000;
/** `Date` headers have whole seconds, so a smaller difference is only rounding. */
const roundingMs = 1500;

let offsetMs = 0;

/**
 * Takes the server's time from the `Date` header of a reply. The server wrote the header between
 * the request and now, so a slow reply does not prove that the browser's clock is wrong.
 */
export function noteServerDate(header: string | null, sentMs: number, nowMs: number): void {
  const stampedMs = header === null ? Number.NaN : Date.parse(header) + 500;
  if (Number.isNaN(stampedMs)) return;
  const clocksAgree = stampedMs > sentMs - roundingMs && stampedMs < nowMs + roundingMs;
  offsetMs = clocksAgree ? 0 : stampedMs - nowMs;
}

export const serverNowMs = (): number => systemClock.nowMs() + offsetMs;

const listeners = new Set<() => void>();
let lastTickMs = 0;
let isTicking = false;

function tick(): void {
  lastTickMs = serverNowMs();
  for (const listener of listeners) listener();
  isTicking = listeners.size > 0;
  if (isTicking) systemClock.after(tickMs - (lastTickMs % tickMs), tick);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (!isTicking) {
    isTicking = true;
    lastTickMs = serverNowMs();
    systemClock.after(tickMs - (lastTickMs % tickMs), tick);
  }
  return () => listeners.delete(listener);
}

const currentTickMs = () => {
  if (!isTicking) lastTickMs = serverNowMs();
  return lastTickMs;
};

/** Calls `compute` every second. The component renders again only when the result changes. */
export const useTicking = <T extends string | number | boolean>(compute: (nowMs: number) => T): T =>
  useSyncExternalStore(subscribe, () => compute(currentTickMs()));
