/** Decides whether a machine is alive, from its last heartbeat and its last probe. */
import type { NodeStatus } from '../model/states.ts';

/** All times are the server's, because the node's clock may be wrong. */
export interface LifeSigns {
  last_seen_at: Date | null;
  /** The longest allowed silence, at least three assigned intervals. */
  stale_seconds: number | null;
  probe_ok_at: Date | null;
}

const msAfter = (date: Date, seconds: number) => date.getTime() + seconds * 1000;

/** Whether the last heartbeat is younger than the stale time. */
export const isFresh = ({ last_seen_at, stale_seconds }: LifeSigns, now: Date): boolean =>
  last_seen_at !== null && stale_seconds !== null && msAfter(last_seen_at, stale_seconds) >= now.getTime();

/** Whether the machine answered a probe after its last heartbeat, at most one stale time ago. */
export const isProbedAlive = ({ last_seen_at, stale_seconds, probe_ok_at }: LifeSigns, now: Date): boolean =>
  probe_ok_at !== null &&
  (last_seen_at === null || probe_ok_at > last_seen_at) &&
  msAfter(probe_ok_at, stale_seconds ?? 0) >= now.getTime();

export interface Silence extends LifeSigns {
  status: NodeStatus;
  status_since: Date;
  /** When the last period ended in which no replica could receive heartbeats. */
  gap_end: Date | null;
}

/**
 * When the machine counts as silent. The stale time starts at the latest of the last heartbeat, the
 * end of the last period without a receiving replica (`gap_end`) and the last status change. A
 * status therefore changes at most once per stale time.
 */
export function staleAt({ last_seen_at, stale_seconds, status_since, gap_end }: Silence): Date {
  const silentSince = Math.max(last_seen_at?.getTime() ?? 0, gap_end?.getTime() ?? 0, status_since.getTime());
  return new Date(silentSince + (stale_seconds ?? 0) * 1000);
}

export type LivenessVerdict =
  | { verdict: 'alive' }
  /** Silent by the clock, but some received heartbeats are not stored yet. */
  | { verdict: 'unsure' }
  | { verdict: 'degraded' }
  | { verdict: 'offline' };

/** `heard_through`: all heartbeats that any replica received before this time are stored. */
export function judgeLiveness(silence: Silence, now: Date, heard_through: Date): LivenessVerdict {
  const stale_at = staleAt(silence);
  if (stale_at >= now) return { verdict: 'alive' };
  if (isProbedAlive(silence, now))
    return silence.status === 'degraded' ? { verdict: 'alive' } : { verdict: 'degraded' };
  return stale_at >= heard_through ? { verdict: 'unsure' } : { verdict: 'offline' };
}

/**
 * When a machine that fell silent can return to service. It waits one stale time, so that its
 * status does not flap.
 */
export const earliestReturnAt = (status_since: Date, stale_seconds: number): Date =>
  new Date(msAfter(status_since, stale_seconds));
