/**
 * Whose silence will soon have lasted too long: found seldom by reading beats, so that liveness and the prober look only at these.
 *
 * Those who may be silent for longer are read seldomer. Every class of them, from one power of two to the next, is read thrice while its
 * shortest stale time passes, for those whose time is up within half of it: whoever crosses the threshold has been found a sixth of it
 * before, long enough to be asked. The most impatient, of the shortest stale time that any pool asks for, are read together with all
 * that nobody has counted yet. Read at the pace of those alone, a fleet of a million would take a fifth of what its beats cost.
 */
import { secondsLater } from '../../base/clock.ts';
import type { Database } from '../../store/pg/database.ts';
import { anyPatience, type Patience, patienceOf, type Suspect, scanSuspects } from '../../store/supervision/silent.ts';
import type { IngestWatch } from './ingest.ts';

export interface Suspects {
  /** Soonest due first. */
  at(now: Date): Promise<readonly Suspect[]>;
  /** How often somebody is read. */
  everySeconds(): number;
}

const readingsInStale = 3;
const leastSeconds = 0.1;
/** The longest interval that anybody may have is an hour; all who may be silent for longer than this are read together. */
const mostPatience = patienceOf(3600);
/** After a disturbance many are suspected for a moment: who of them is back must not stand before the others for minutes. */
const disturbance = 1_000;

interface Class {
  patience: Patience;
  /** The shortest silence that any of them is allowed. */
  stale_seconds: number;
}

interface Reading {
  at: Date;
  found: readonly Suspect[];
}

function classesFrom(tightest: number): Class[] {
  const first = Math.min(patienceOf(tightest), mostPatience);
  const powers = Array.from({ length: mostPatience - first }, (_, place) => first + 1 + place);
  return [
    { patience: { least: anyPatience.least, most: first }, stale_seconds: tightest },
    ...powers.map((power) => ({
      patience: { least: power, most: power === mostPatience ? anyPatience.most : power },
      stale_seconds: 2 ** power,
    })),
  ];
}

const soonestFirst = (a: Suspect, b: Suspect) => a.due_ms - b.due_ms;

export function createSuspects(db: Database, ingest: Pick<IngestWatch, 'tightestStaleSeconds'>): Suspects {
  /** By the least patience of the class. */
  const readings = new Map<number, Reading>();
  let all: readonly Suspect[] = [];
  let asked: Promise<readonly Suspect[]> | undefined;

  const everySeconds = () => Math.max(leastSeconds, ingest.tightestStaleSeconds() / readingsInStale);
  /** With every so many readings of the most impatient, so that nobody's turn comes a moment after the last look. */
  const paceOf = (stale_seconds: number) =>
    everySeconds() * Math.max(1, Math.floor(stale_seconds / readingsInStale / everySeconds()));

  const isRead = ({ patience, stale_seconds }: Class, now: Date): boolean => {
    const last = readings.get(patience.least);
    if (!last || now < last.at) return false;
    return now < secondsLater(last.at, last.found.length < disturbance ? paceOf(stale_seconds) : everySeconds());
  };

  const read = async (classes: Class[], now: Date): Promise<readonly Suspect[]> => {
    for (const { patience, stale_seconds } of classes.filter((each) => !isRead(each, now))) {
      const soon = stale_seconds / 2;
      const found = await scanSuspects(db, secondsLater(now, -soon), secondsLater(now, soon), patience);
      readings.set(patience.least, { at: now, found });
    }
    // Of a class that is none any more, after the shortest stale time has changed.
    for (const least of readings.keys())
      if (!classes.some(({ patience }) => patience.least === least)) readings.delete(least);
    all = [...readings.values()].flatMap(({ found }) => found).sort(soonestFirst);
    return all;
  };

  return {
    everySeconds,
    at(now) {
      if (asked) return asked;
      const classes = classesFrom(ingest.tightestStaleSeconds());
      if (classes.every((each) => isRead(each, now))) return Promise.resolve(all);
      asked = read(classes, now).finally(() => {
        asked = undefined;
      });
      return asked;
    },
  };
}
