/** Samples which statements the database runs or waits on. */
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Database } from '../../src/store/pg/database.ts';

const everyMs = 100;
const maxStatements = 12;

export interface Sampling {
  /** The most frequent statements, as text. */
  end(): Promise<string[]>;
}

const look = `
  select regexp_replace(left(query, 300), '\\s+', ' ', 'g') as query, coalesce(wait_event_type || ' ' || wait_event, 'at work') as doing
  from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and backend_type in ('client backend', 'autovacuum worker')`;

export function sampleStatements(db: Database): Sampling {
  const counts = new Map<string, number>();
  let looks = 0;
  let over = false;
  const run = async () => {
    while (!over) {
      // While the store is away, nothing runs.
      const rows = await db.query<{ query: string; doing: string }>(look).catch(() => []);
      looks++;
      for (const { query, doing } of rows) {
        const key = `${doing}: ${query.slice(0, 110)}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      await pause(systemClock, everyMs);
    }
  };
  const running = run();
  return {
    async end() {
      over = true;
      await running;
      return [...counts]
        .toSorted(([, a], [, b]) => b - a)
        .slice(0, maxStatements)
        .map(([what, count]) => `${((100 * count) / Math.max(1, looks)).toFixed(1)} % ${what}`);
    },
  };
}
