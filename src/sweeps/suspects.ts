/**
 * Whose silence will soon have lasted too long: found seldom by reading all beats, so that liveness and the prober look only at these.
 * Soon is half of the shortest stale time: after a disturbance most of a fleet may have been silent for a while, and nearly all of it
 * still has minutes.
 */
import { secondsLater } from '../base/clock.ts';
import type { Database } from '../store/database.ts';
import { type Suspect, scanSuspects } from '../store/silent.ts';
import type { IngestWatch } from './ingest-watch.ts';

export interface Suspects {
  /** Soonest due first. */
  at(now: Date): Promise<readonly Suspect[]>;
  /** How often the beats are read. Whoever crosses the threshold has been found at least once before. */
  everySeconds(): number;
}

/**
 * Soon is half, so whoever crosses the threshold has been found a sixth of the stale time before it: long enough to be asked. To read
 * twice as often would cost twice as much, for a fleet of a million as much as a fifth of all its beats.
 */
const readingsInStale = 3;
const leastSeconds = 0.1;

export function createSuspects(db: Database, ingest: Pick<IngestWatch, 'tightestStaleSeconds'>): Suspects {
  let found: Promise<readonly Suspect[]> = Promise.resolve([]);
  let readAt: Date | undefined;
  const everySeconds = () => Math.max(leastSeconds, ingest.tightestStaleSeconds() / readingsInStale);
  return {
    everySeconds,
    at(now) {
      if (readAt && now < secondsLater(readAt, everySeconds()) && now >= readAt) return found;
      readAt = now;
      const soonSeconds = ingest.tightestStaleSeconds() / 2;
      const reading = scanSuspects(db, secondsLater(now, -soonSeconds), secondsLater(now, soonSeconds));
      found = reading.catch((error) => {
        readAt = undefined;
        throw error;
      });
      return found;
    },
  };
}
