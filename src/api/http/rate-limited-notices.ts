/**
 * Limits how often the same notice is recorded: the first time, then the tenth, the hundredth and
 * so on within an hour, each with the number of repeats since. A flood cannot fill the store, and
 * its size is still known.
 */
import type { Clock } from '../../base/clock.ts';

const quietMs = 3600_000;
const maxRemembered = 10_000;
/**
 * An actor that tries more targets than this within an hour is scanning; further ones are not
 * named.
 */
export const maxTargets = 200;

export interface NoticeEntry {
  /** Repeats since the last entry; undefined the first time. */
  repeats_since_last?: number;
  /** The actor tried so many targets that further ones are only counted. */
  of_many_targets?: true;
}

export interface Notice {
  actor: string;
  /** The request and the reason of its refusal. */
  what: string;
  target: string | null;
}

interface Remembered {
  since: number;
  times: number;
  unreported: number;
}

const isPowerOfTen = (times: number) => /^10*$/.test(String(times));

export interface RateLimitedNotices {
  /** The entry to record, or undefined if the notice is only counted. */
  admit(notice: Notice): NoticeEntry | undefined;
  /** The entry was not recorded: admits the next notice of its kind, with the count of both. */
  undo(notice: Notice, entry: NoticeEntry): void;
}

const keyOf = ({ actor, what, target }: Notice) => JSON.stringify([actor, what, target]);
const keyOfMany = ({ actor, what }: Notice) => JSON.stringify([actor, what]);

export function createRateLimitedNotices(clock: Clock): RateLimitedNotices {
  const known = new Map<string, Remembered>();
  const targetsOf = new Map<string, { since: number; count: number }>();
  const isFresh = (since: number) => clock.nowMs() - since < quietMs;

  function triesTooMany(actor: string): boolean {
    const before = targetsOf.get(actor);
    if (!before || !isFresh(before.since)) {
      targetsOf.set(actor, { since: clock.nowMs(), count: 1 });
      return false;
    }
    before.count++;
    return before.count > maxTargets;
  }

  function count(key: string): NoticeEntry | undefined {
    const before = known.get(key);
    if (before && isFresh(before.since)) {
      before.times++;
      before.unreported++;
      if (!isPowerOfTen(before.times)) return undefined;
      const repeats_since_last = before.unreported - 1;
      before.unreported = 0;
      return { repeats_since_last };
    }
    if (known.size >= maxRemembered) {
      known.clear();
      targetsOf.clear();
    }
    known.set(key, { since: clock.nowMs(), times: 1, unreported: 0 });
    return before ? { repeats_since_last: before.unreported } : {};
  }

  return {
    admit(notice) {
      const key = keyOf(notice);
      const before = known.get(key);
      const isNew = notice.target !== null && !(before && isFresh(before.since));
      if (!isNew || !triesTooMany(notice.actor)) return count(key);
      const entry = count(keyOfMany(notice));
      return entry && { ...entry, of_many_targets: true };
    },
    undo(notice, { of_many_targets, repeats_since_last = 0 }) {
      const remembered = known.get(of_many_targets ? keyOfMany(notice) : keyOf(notice));
      if (!remembered) return;
      remembered.times = 0;
      remembered.unreported += repeats_since_last + 1;
    },
  };
}
