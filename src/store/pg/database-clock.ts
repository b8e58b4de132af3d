/** Reads the clock of the database. All replicas follow it, so that they agree on `now`. */
import { type Clock, offsetClock, systemClock } from '../../base/clock.ts';
import { type Queryable, single } from './database.ts';

const readings = 3;

export interface SyncedClock extends Clock {
  /** Measures the database's clock again, after it was set. */
  resync(): Promise<void>;
}

/**
 * Uses the reading with the shortest round trip, and assumes that the clock was read in its middle.
 */
async function measure(db: Queryable, base: Clock): Promise<{ wallMs: number; monotonicMs: number }> {
  let best: { wallMs: number; monotonicMs: number; tripMs: number } | undefined;
  for (let i = 0; i < readings; i++) {
    const before = base.monotonicMs();
    const { now_ms } = single(
      await db.query<{ now_ms: number }>(
        'select (extract(epoch from clock_timestamp()) * 1000)::double precision as now_ms',
      ),
    );
    const tripMs = base.monotonicMs() - before;
    if (!best || tripMs < best.tripMs) best = { wallMs: now_ms, monotonicMs: before + tripMs / 2, tripMs };
  }
  if (!best) throw new Error('the clock was never read');
  return best;
}

export async function databaseClock(db: Queryable, base: Clock = systemClock): Promise<SyncedClock> {
  let current = offsetClock(await measure(db, base), base);
  return {
    nowMs: () => current.nowMs(),
    monotonicMs: () => current.monotonicMs(),
    after: (delayMs, run) => current.after(delayMs, run),
    async resync() {
      current = offsetClock(await measure(db, base), base);
    },
  };
}
