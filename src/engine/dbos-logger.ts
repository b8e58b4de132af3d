/** DBOS's own log lines, on our log. Its life cycle chatter is ours to debug with, so it says nothing unless asked. */
import type { DLogger } from '@dbos-inc/dbos-sdk';
import type { Clock } from '../base/clock.ts';
import type { EngineLog } from './engine-log.ts';

/** Every run repeats the same warning every second while the store is away. */
const repeatAfterMs = 10_000;
const maxRemembered = 100;

/** Logs a line again only after a while, with how often it came in between. Numbers in it do not make it another line. */
function createRepeats(clock: Clock) {
  const lines = new Map<string, { loggedMs: number; skipped: number }>();
  return (text: string): { repeated: number } | undefined => {
    const key = text.replaceAll(/[\d.]+/g, '#');
    const known = lines.get(key);
    const nowMs = clock.monotonicMs();
    if (known && nowMs - known.loggedMs < repeatAfterMs) {
      known.skipped++;
      return undefined;
    }
    if (lines.size >= maxRemembered) lines.clear();
    lines.set(key, { loggedMs: nowMs, skipped: 0 });
    return { repeated: known?.skipped ?? 0 };
  };
}

export function dbosLogger(log: EngineLog, clock: Clock): DLogger {
  const fields = { component: 'dbos' };
  const due = createRepeats(clock);
  return {
    debug: (entry) => log.debug(fields, String(entry)),
    info: (entry) => log.debug(fields, String(entry)),
    warn(entry) {
      const text = String(entry);
      // Shutting down while runs are under way is what durable execution is for.
      if (text.startsWith('Shutting down while')) return log.debug(fields, text);
      const repeats = due(text);
      if (repeats) log.warn({ ...fields, ...repeats }, text);
    },
    error: (entry, metadata) => log.error({ ...fields, err: metadata?.error ?? metadata?.stack }, String(entry)),
  };
}
