/**
 * What comes again and again is told the first time, and then the tenth, the hundredth and so on within an hour, with how often it came
 * in between: a flood cannot fill the store, and how large it was is known all the same.
 */
import type { Clock } from '../../base/clock.ts';

const quietMs = 3600_000;
const mostRemembered = 10_000;
/** Whoever tries more targets than this within the hour is groping; what follows is told without naming each. */
export const mostTargets = 200;

export interface NoticeEntry {
  /** How often it came since it was last told; undefined the first time. */
  repeats_since_last?: number;
  /** The actor tried so many targets that further ones are only counted. */
  of_many_targets?: true;
}

export interface Notice {
  actor: string;
  /** What was asked for and why it was not given. */
  what: string;
  target: string | null;
}

interface Remembered {
  since: number;
  times: number;
  untold: number;
}

const isPowerOfTen = (times: number) => /^10*$/.test(String(times));

export interface ToldOnce {
  /** Answers what to tell, or undefined where it is only counted. */
  (notice: Notice): NoticeEntry | undefined;
  /** What should have been told was not recorded: the next of its kind is told again, with the count of both. */
  undo(notice: Notice, entry: NoticeEntry): void;
}

const keyOf = ({ actor, what, target }: Notice) => JSON.stringify([actor, what, target]);
const keyOfMany = ({ actor, what }: Notice) => JSON.stringify([actor, what]);

export function createToldOnce(clock: Clock): ToldOnce {
  const told = new Map<string, Remembered>();
  const targetsOf = new Map<string, { since: number; count: number }>();
  const isFresh = (since: number) => clock.nowMs() - since < quietMs;

  function triesTooMany(actor: string): boolean {
    const before = targetsOf.get(actor);
    if (!before || !isFresh(before.since)) {
      targetsOf.set(actor, { since: clock.nowMs(), count: 1 });
      return false;
    }
    before.count++;
    return before.count > mostTargets;
  }

  function count(key: string): NoticeEntry | undefined {
    const before = told.get(key);
    if (before && isFresh(before.since)) {
      before.times++;
      before.untold++;
      if (!isPowerOfTen(before.times)) return undefined;
      const repeats_since_last = before.untold - 1;
      before.untold = 0;
      return { repeats_since_last };
    }
    if (told.size >= mostRemembered) {
      told.clear();
      targetsOf.clear();
    }
    told.set(key, { since: clock.nowMs(), times: 1, untold: 0 });
    return before ? { repeats_since_last: before.untold } : {};
  }

  const tell = (notice: Notice): NoticeEntry | undefined => {
    const key = keyOf(notice);
    const known = told.get(key);
    const isNew = notice.target !== null && !(known && isFresh(known.since));
    if (!isNew || !triesTooMany(notice.actor)) return count(key);
    const entry = count(keyOfMany(notice));
    return entry && { ...entry, of_many_targets: true };
  };
  return Object.assign(tell, {
    undo(notice: Notice, { of_many_targets, repeats_since_last = 0 }: NoticeEntry) {
      const remembered = told.get(of_many_targets ? keyOfMany(notice) : keyOf(notice));
      if (!remembered) return;
      remembered.times = 0;
      remembered.untold += repeats_since_last + 1;
    },
  });
}
