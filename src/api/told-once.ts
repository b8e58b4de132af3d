/** What comes again and again is told the first time and then once an hour with how often it came, so that a flood cannot fill the store. */
import type { Clock } from '../base/clock.ts';

const quietMs = 3600_000;
const mostRemembered = 10_000;

export interface Telling {
  /** How often it came since it was last told; undefined the first time. */
  repeats_since_last?: number;
}

/** Answers what to tell, or undefined where it is only counted. */
export function createToldOnce(clock: Clock): (key: string) => Telling | undefined {
  const told = new Map<string, { atMs: number; repeats: number }>();
  return (key) => {
    const before = told.get(key);
    if (before && clock.nowMs() - before.atMs < quietMs) {
      before.repeats++;
      return undefined;
    }
    if (told.size >= mostRemembered) told.clear();
    told.set(key, { atMs: clock.nowMs(), repeats: 0 });
    return before ? { repeats_since_last: before.repeats } : {};
  };
}
