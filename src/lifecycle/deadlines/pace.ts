/**
 * How often a client beats: as we tell it, or, where it cannot be told, as often as it announced or was seen to. Pure.
 *
 * Whoever can be told is told anew in every reply, and the more machines there are, the seldomer each beats: what a replica
 * hears in a second stays what it was set up for, however large the fleet grows.
 *
 * What was seen is the shorter of the last two pauses. One long pause is an outage, and must not make its client look slow
 * when it is back; two are how it beats. A client that beats faster than it announced may still keep to what it announced.
 */
import { effectiveStaleSeconds } from './budgets.ts';

/** Nobody may be silent for days by announcing it. */
export const maxIntervalSeconds = 3600;

export interface BeatTiming {
  last_ms: number;
  /** The pause before the last beat. */
  pause_seconds: number | null;
  interval_seconds: number | null;
}

export function recordBeat(seen: BeatTiming | undefined, now_ms: number): BeatTiming {
  if (!seen) return { last_ms: now_ms, pause_seconds: null, interval_seconds: null };
  const pause_seconds = Math.max(0, (now_ms - seen.last_ms) / 1000);
  const { pause_seconds: before, interval_seconds } = seen;
  return {
    last_ms: now_ms,
    pause_seconds,
    interval_seconds: before === null ? interval_seconds : Math.min(before, pause_seconds),
  };
}

export interface PaceFacts {
  announced_seconds: number | null;
  /** What this replica saw, or else what was last judged by. */
  seen_seconds: number | null;
  /** The pool's, where nobody has said or seen anything. */
  usual_seconds: number;
  stale_after_seconds: number;
  /** It was promised that it need not be heard for so long. */
  lease_seconds?: number;
}

export interface Pace {
  interval_seconds: number;
  stale_seconds: number;
}

export function paceOf(facts: PaceFacts): Pace {
  const { announced_seconds, seen_seconds, usual_seconds, stale_after_seconds, lease_seconds = 0 } = facts;
  const known = announced_seconds === null && seen_seconds === null ? usual_seconds : 0;
  const interval_seconds = Math.min(Math.max(announced_seconds ?? 0, seen_seconds ?? 0, known), maxIntervalSeconds);
  return {
    interval_seconds,
    stale_seconds: Math.max(effectiveStaleSeconds(stale_after_seconds, interval_seconds), lease_seconds),
  };
}

/** What the control plane has to hear, and how much of it each of its replicas is meant to. */
export interface FleetLoad {
  /** Machines that somebody listens for. */
  nodes: number;
  /** Those that live, this one included. */
  replicas: number;
  /** Beats that one replica should hear in a second. */
  beat_rate: number;
}

const jitter = 0.1;

/**
 * `spread`: from 0 to 1, by chance, so that a fleet that started together does not beat together. `stretch`: of a replica that
 * has more to do than it can.
 */
export function assignedIntervalSeconds(
  pool_interval_seconds: number,
  load: FleetLoad,
  spread: number,
  stretch = 1,
): number {
  const fair = load.nodes / (load.beat_rate * Math.max(1, load.replicas));
  const interval = Math.max(pool_interval_seconds, fair) * stretch * (1 + jitter * (2 * spread - 1));
  return Math.min(Math.round(interval * 1000) / 1000, maxIntervalSeconds);
}

/**
 * The longest interval that may be told to somebody who is allowed so long a silence by what is stored. What it is told is stored a
 * moment later, and may be lost with the replica that told it, and with the very beat that it answered: then others judge it by what they
 * know, and it must be heard in time all the same. The interval before that beat and the one after it, each a little longer than told, are
 * less than such a silence. So an interval grows by half with each beat, at most, and not at once.
 */
export const maxAssignableSeconds = (stored_stale_seconds: number): number =>
  Math.floor(500 * stored_stale_seconds) / 1000;

const units: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600 };
const duration = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h))+$/;
const part = /(\d+(?:\.\d+)?)(ms|s|m|h)/g;

/** `2s`, `500ms`, `1m30s`; null for what is no duration or none that counts. */
export function readDuration(text: string | null | undefined): number | null {
  if (!text || text.length > 64 || !duration.test(text)) return null;
  const seconds = [...text.matchAll(part)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * (units[unit ?? ''] ?? 0),
    0,
  );
  return seconds > 0 ? Math.min(seconds, maxIntervalSeconds) : null;
}
