/** Samples which statements the database runs, and what each of them waits for. */
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Database } from '../../src/store/pg/database.ts';

const everyMs = 100;
const maxStatements = 12;

export interface Sampling {
  /** Ends the sampling and returns the most frequent statements with their share of the samples. */
  end(): Promise<string[]>;
}

const sampleSql = `
  select regexp_replace(left(query, 300), '\\s+', ' ', 'g') as query, coalesce(wait_event_type || ' ' || wait_event, 'running') as activity
  from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() and backend_type in ('client backend', 'autovacuum worker')`;

export function sampleStatements(db: Database): Sampling {
  const counts = new Map<string, number>();
  let samples = 0;
  let isOver = false;
  const run = async () => {
    while (!isOver) {
      // An unreachable database counts as an empty sample.
      const rows = await db.query<{ query: string; activity: string }>(sampleSql).catch(() => []);
      samples++;
      for (const { query, activity } of rows) {
        const key = `${activity}: ${query.slice(0, 110)}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
      await pause(systemClock, everyMs);
    }
  };
  const running = run();
  return {
    async end() {
      isOver = true;
      await running;
      return [...counts]
        .toSorted(([, a], [, b]) => b - a)
        .slice(0, maxStatements)
        .map(([statement, count]) => `${((100 * count) / Math.max(1, samples)).toFixed(1)} % ${statement}`);
    },
  };
}
