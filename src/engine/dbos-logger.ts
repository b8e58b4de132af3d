/** Sends DBOS's log lines to our log. DBOS's info messages appear at debug level only. */
import type { DLogger } from '@dbos-inc/dbos-sdk';
import type { Clock } from '../base/clock.ts';
import { isTakeover } from './dbos-journal.ts';
import type { EngineLog } from './engine-log.ts';

/** While the store is unavailable, every run repeats the same warning each second. */
const repeatAfterMs = 10_000;
const maxRemembered = 100;

/**
 * Rate-limits repeated lines and counts the skipped ones. Lines that differ only in numbers count
 * as repeated. Returns undefined for a line to skip.
 */
function createRateLimit(clock: Clock) {
  const lines = new Map<string, { loggedMs: number; skipped: number }>();
  return (text: string): { repeated: number } | undefined => {
    const key = text.replaceAll(/[\d.]+/g, '#');
    const previous = lines.get(key);
    const nowMs = clock.monotonicMs();
    if (previous && nowMs - previous.loggedMs < repeatAfterMs) {
      previous.skipped++;
      return undefined;
    }
    if (lines.size >= maxRemembered) lines.clear();
    lines.set(key, { loggedMs: nowMs, skipped: 0 });
    return { repeated: previous?.skipped ?? 0 };
  };
}

export function dbosLogger(log: EngineLog, clock: Clock): DLogger {
  const fields = { component: 'dbos' };
  const rateLimit = createRateLimit(clock);
  return {
    debug: (entry) => log.debug(fields, String(entry)),
    info: (entry) => log.debug(fields, String(entry)),
    warn(entry) {
      const text = String(entry);
      // Shutting down with unfinished runs is normal: another replica continues them.
      if (text.startsWith('Shutting down while')) return log.debug(fields, text);
      const repeats = rateLimit(text);
      if (repeats) log.warn({ ...fields, ...repeats }, text);
    },
    error(entry, metadata) {
      // DBOS throws this error too, and the journal reports the takeover.
      if (isTakeover(metadata?.error)) return log.debug(fields, String(entry));
      log.error({ ...fields, err: metadata?.error ?? metadata?.stack }, String(entry));
    },
  };
}
