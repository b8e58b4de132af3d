/**
 * Finds nodes whose silence will soon be too long, with rare reads of heartbeats, so that liveness
 * and the prober look only at these.
 *
 * Nodes are classed by stale time, in powers of two. Each class is read three times per its
 * shortest stale time, for nodes due within half of it, so a node is found at least a sixth of its
 * stale time before the threshold. The first class, of the shortest stale time of any pool,
 * includes nodes that have no class yet. Reading a million nodes at the pace of the first class
 * would cost a fifth of their heartbeats.
 */
import { secondsLater } from '../../base/clock.ts';
import type { Database } from '../../store/pg/database.ts';
import {
  anyPatience,
  type Patience,
  patienceOf,
  type Suspect,
  scanSuspects,
} from '../../store/supervision/silent-nodes.ts';
import type { IngestWatch } from './ingest.ts';

export interface Suspects {
  /** Sorted by due time. */
  at(now: Date): Promise<readonly Suspect[]>;
  /** The shortest time between two readings. */
  everySeconds(): number;
}

const readingsInStale = 3;
const leastSeconds = 0.1;
/** The longest interval is an hour; nodes with a longer stale time share the last class. */
const maxPatience = patienceOf(3600);
/**
 * After an outage many nodes are suspects for a moment. With this many, read at the fastest pace,
 * so that nodes that are back do not crowd out the others for minutes.
 */
const disturbance = 1_000;

interface Class {
  patience: Patience;
  /** The shortest stale time in this class. */
  stale_seconds: number;
}

interface Reading {
  at: Date;
  found: readonly Suspect[];
}

function classesFrom(tightest: number): Class[] {
  const first = Math.min(patienceOf(tightest), maxPatience);
  const powers = Array.from({ length: maxPatience - first }, (_, place) => first + 1 + place);
  return [
    { patience: { min: anyPatience.min, max: first }, stale_seconds: tightest },
    ...powers.map((power) => ({
      patience: { min: power, max: power === maxPatience ? anyPatience.max : power },
      stale_seconds: 2 ** power,
    })),
  ];
}

const soonestFirst = (a: Suspect, b: Suspect) => a.due_ms - b.due_ms;

export function createSuspects(db: Database, ingest: Pick<IngestWatch, 'tightestStaleSeconds'>): Suspects {
  /** By the lower bound of the class. */
  const readings = new Map<number, Reading>();
  let all: readonly Suspect[] = [];
  let pending: Promise<readonly Suspect[]> | undefined;

  const everySeconds = () => Math.max(leastSeconds, ingest.tightestStaleSeconds() / readingsInStale);
  /** A multiple of the first class's pace, so that a turn never falls just after a pass. */
  const paceOf = (stale_seconds: number) =>
    everySeconds() * Math.max(1, Math.floor(stale_seconds / readingsInStale / everySeconds()));

  const isRead = ({ patience, stale_seconds }: Class, now: Date): boolean => {
    const last = readings.get(patience.min);
    if (!last || now < last.at) return false;
    return now < secondsLater(last.at, last.found.length < disturbance ? paceOf(stale_seconds) : everySeconds());
  };

  const read = async (classes: Class[], now: Date): Promise<readonly Suspect[]> => {
    for (const { patience, stale_seconds } of classes.filter((each) => !isRead(each, now))) {
      const soon = stale_seconds / 2;
      const found = await scanSuspects(db, secondsLater(now, -soon), secondsLater(now, soon), patience);
      readings.set(patience.min, { at: now, found });
    }
    // Drop classes that ended when the shortest stale time changed.
    for (const least of readings.keys())
      if (!classes.some(({ patience }) => patience.min === least)) readings.delete(least);
    all = [...readings.values()].flatMap(({ found }) => found).sort(soonestFirst);
    return all;
  };

  return {
    everySeconds,
    at(now) {
      if (pending) return pending;
      const classes = classesFrom(ingest.tightestStaleSeconds());
      if (classes.every((each) => isRead(each, now))) return Promise.resolve(all);
      pending = read(classes, now).finally(() => {
        pending = undefined;
      });
      return pending;
    },
  };
}
