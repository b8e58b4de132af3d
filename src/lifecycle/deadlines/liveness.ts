/** Whether a machine lives, as a function of what was heard of it and now. Pure. */
import type { NodeStatus } from '../model/states.ts';

/** What is known of a machine's life. Times are the server's own: the node's clock is never trusted. */
export interface LifeSigns {
  last_seen_at: Date | null;
  /** How long this machine may be silent: never less than three of the intervals it was told to keep. */
  stale_seconds: number | null;
  probe_ok_at: Date | null;
}

const later = (date: Date, seconds: number) => date.getTime() + seconds * 1000;

/** Proven alive: a beat that is younger than the machine's own stale time. */
export const isFresh = ({ last_seen_at, stale_seconds }: LifeSigns, now: Date): boolean =>
  last_seen_at !== null && stale_seconds !== null && later(last_seen_at, stale_seconds) >= now.getTime();

/** Answered a probe after its last beat, and not longer ago than it might be silent. */
export const isProbedAlive = ({ last_seen_at, stale_seconds, probe_ok_at }: LifeSigns, now: Date): boolean =>
  probe_ok_at !== null &&
  (last_seen_at === null || probe_ok_at > last_seen_at) &&
  later(probe_ok_at, stale_seconds ?? 0) >= now.getTime();

export interface Silence extends LifeSigns {
  status: NodeStatus;
  status_since: Date;
  /** The end of the last gap in which no replica of ours could hear anybody. */
  gap_end: Date | null;
}

/**
 * When the silence has lasted too long. It counts from the last beat, but never from before we could hear again, and never
 * from before the last change: a machine at the threshold changes its status at most once in a stale time.
 */
export function staleAt({ last_seen_at, stale_seconds, status_since, gap_end }: Silence): Date {
  const heard = Math.max(last_seen_at?.getTime() ?? 0, gap_end?.getTime() ?? 0, status_since.getTime());
  return new Date(heard + (stale_seconds ?? 0) * 1000);
}

export type LivenessVerdict =
  | { verdict: 'alive' }
  /** Silent by the clock, but not everything we were told is in the store yet. */
  | { verdict: 'unsure' }
  | { verdict: 'degraded' }
  | { verdict: 'offline' };

/** `heard_through`: every beat that any replica received before this moment is in the store. */
export function judgeLiveness(silence: Silence, now: Date, heard_through: Date): LivenessVerdict {
  const from = staleAt(silence);
  if (from >= now) return { verdict: 'alive' };
  if (isProbedAlive(silence, now))
    return silence.status === 'degraded' ? { verdict: 'alive' } : { verdict: 'degraded' };
  return from >= heard_through ? { verdict: 'unsure' } : { verdict: 'offline' };
}

/** From when on a machine that fell silent and beats again is believed: one change in a stale time. */
export const mayReturnAt = (status_since: Date, stale_seconds: number): Date =>
  new Date(later(status_since, stale_seconds));
