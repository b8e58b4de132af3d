/**
 * Limits how often the same notice is recorded. Within an hour, the first, tenth, hundredth and so
 * on are recorded, each with the number of repeats since the last entry. A flood cannot fill the
 * store, and its size is still known.
 */
import type { Clock } from '../../base/clock.ts';

const windowMs = 3600_000;
const maxRemembered = 10_000;
/**
 * An actor that tries more targets than this within an hour is scanning. Further targets are
 * counted together and not named.
 */
export const maxTargets = 200;

export interface NoticeEntry {
  /** Repeats since the last entry; undefined the first time. */
  repeats_since_last?: number;
  /** The entry counts many targets of an actor together. */
  of_many_targets?: true;
}

export interface Notice {
  actor: string;
  /** Notices of the same actor, kind and target are repeats. */
  kind: string;
  target: string | null;
}

interface NoticeCount {
  since: number;
  times: number;
  unreported: number;
}

const isPowerOfTen = (times: number) => /^10*$/.test(String(times));

export interface RateLimitedNotices {
  /** The entry to record, or undefined if the notice is only counted. */
  admit(notice: Notice): NoticeEntry | undefined;
  /** Call if the entry could not be recorded. The next notice is then admitted and counts both. */
  undo(notice: Notice, entry: NoticeEntry): void;
}

const keyOf = ({ actor, kind, target }: Notice) => JSON.stringify([actor, kind, target]);
const keyOfMany = ({ actor, kind }: Notice) => JSON.stringify([actor, kind]);

export function createRateLimitedNotices(clock: Clock): RateLimitedNotices {
  const countsByKey = new Map<string, NoticeCount>();
  const targetsByActor = new Map<string, { since: number; count: number }>();
  const isFresh = (since: number) => clock.nowMs() - since < windowMs;

  /** Counts a new target of the actor. Returns whether the actor has tried too many. */
  function countTarget(actor: string): boolean {
    const targets = targetsByActor.get(actor);
    if (!targets || !isFresh(targets.since)) {
      targetsByActor.set(actor, { since: clock.nowMs(), count: 1 });
      return false;
    }
    targets.count++;
    return targets.count > maxTargets;
  }

  function countNotice(key: string): NoticeEntry | undefined {
    const noticeCount = countsByKey.get(key);
    if (noticeCount && isFresh(noticeCount.since)) {
      noticeCount.times++;
      noticeCount.unreported++;
      if (!isPowerOfTen(noticeCount.times)) return undefined;
      const repeats_since_last = noticeCount.unreported - 1;
      noticeCount.unreported = 0;
      return { repeats_since_last };
    }
    if (countsByKey.size >= maxRemembered) {
      countsByKey.clear();
      targetsByActor.clear();
    }
    countsByKey.set(key, { since: clock.nowMs(), times: 1, unreported: 0 });
    return noticeCount ? { repeats_since_last: noticeCount.unreported } : {};
  }

  return {
    admit(notice) {
      const key = keyOf(notice);
      const noticeCount = countsByKey.get(key);
      const isNew = notice.target !== null && !(noticeCount && isFresh(noticeCount.since));
      if (!isNew || !countTarget(notice.actor)) return countNotice(key);
      const entry = countNotice(keyOfMany(notice));
      return entry && { ...entry, of_many_targets: true };
    },
    undo(notice, { of_many_targets, repeats_since_last = 0 }) {
      const noticeCount = countsByKey.get(of_many_targets ? keyOfMany(notice) : keyOf(notice));
      if (!noticeCount) return;
      noticeCount.times = 0;
      noticeCount.unreported += repeats_since_last + 1;
    },
  };
}
