/**
 * Lists the nodes that may soon be silent too long, so that liveness and the prober look only at
 * these and heartbeats are read rarely.
 *
 * Nodes are classed by stale time, in powers of two. A class is read three times within its
 * shortest stale time, for nodes that are due within half of that time. So a node is listed at
 * least a sixth of its class's shortest stale time before it is due. Without classes, reading a
 * million nodes as often as the first class would cost a fifth of what their heartbeats cost.
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
  /** Returns the suspects, sorted by due time; reads heartbeats only if some class is due. */
  list(now: Date): Promise<readonly Suspect[]>;
  /** The shortest time between two reads. */
  everySeconds(): number;
}

const readsPerStaleTime = 3;
const minIntervalSeconds = 0.1;
/** Nodes with a stale time in the class of an hour, or in a longer one, share the last class. */
const maxPatience = patienceOf(3600);
/**
 * After an outage many nodes are suspects for a moment. A class with this many is read at the
 * fastest pace, so that nodes that are back do not crowd out the others for minutes.
 */
const manySuspects = 1_000;

interface Class {
  patience: Patience;
  /** The shortest stale time in this class. */
  stale_seconds: number;
}

interface Reading {
  at: Date;
  suspects: readonly Suspect[];
}

/** The first class starts at the shortest stale time and includes nodes without a class. */
function listClasses(shortest: number): Class[] {
  const first = Math.min(patienceOf(shortest), maxPatience);
  const powers = Array.from({ length: maxPatience - first }, (_, index) => first + 1 + index);
  return [
    { patience: { min: anyPatience.min, max: first }, stale_seconds: shortest },
    ...powers.map((power) => ({
      patience: { min: power, max: power === maxPatience ? anyPatience.max : power },
      stale_seconds: 2 ** power,
    })),
  ];
}

const soonestFirst = (a: Suspect, b: Suspect) => a.due_ms - b.due_ms;

export function createSuspects(db: Database, ingest: Pick<IngestWatch, 'tightestStaleSeconds'>): Suspects {
  /** Keyed by the lower bound of the class. */
  const readings = new Map<number, Reading>();
  let latest: readonly Suspect[] = [];
  let pending: Promise<readonly Suspect[]> | undefined;

  const everySeconds = () => Math.max(minIntervalSeconds, ingest.tightestStaleSeconds() / readsPerStaleTime);
  /** A multiple of the first class's interval, so that no class is due just after a pass. */
  const intervalOf = (stale_seconds: number) =>
    everySeconds() * Math.max(1, Math.floor(stale_seconds / readsPerStaleTime / everySeconds()));

  const isCurrent = ({ patience, stale_seconds }: Class, now: Date): boolean => {
    const last = readings.get(patience.min);
    if (!last || now < last.at) return false;
    return (
      now < secondsLater(last.at, last.suspects.length < manySuspects ? intervalOf(stale_seconds) : everySeconds())
    );
  };

  const read = async (classes: Class[], now: Date): Promise<readonly Suspect[]> => {
    for (const { patience, stale_seconds } of classes.filter((each) => !isCurrent(each, now))) {
      const soon = stale_seconds / 2;
      const suspects = await scanSuspects(db, secondsLater(now, -soon), secondsLater(now, soon), patience);
      readings.set(patience.min, { at: now, suspects });
    }
    // Drop classes that no longer exist because the shortest stale time changed.
    for (const lowerBound of readings.keys())
      if (!classes.some(({ patience }) => patience.min === lowerBound)) readings.delete(lowerBound);
    latest = [...readings.values()].flatMap(({ suspects }) => suspects).sort(soonestFirst);
    return latest;
  };

  return {
    everySeconds,
    list(now) {
      if (pending) return pending;
      const classes = listClasses(ingest.tightestStaleSeconds());
      if (classes.every((each) => isCurrent(each, now))) return Promise.resolve(latest);
      pending = read(classes, now).finally(() => {
        pending = undefined;
      });
      return pending;
    },
  };
}
