/**
 * The heartbeat interval of a client. Our agents get an interval assigned with every reply. Other
 * clients are judged by the interval that they announce or that the server measures.
 *
 * Assigned intervals grow with the fleet, so that each replica receives a constant rate of
 * heartbeats.
 *
 * The measured interval is the shorter of the last two pauses: one long pause is an outage, two are
 * the client's pace. The longer of the announced and the measured interval counts, so a client that
 * is faster than announced may slow down again.
 */
import { effectiveStaleSeconds } from './heartbeat-policy.ts';

/** The upper bound of every interval, so that no client can announce an interval of days. */
export const maxIntervalSeconds = 3600;

export interface BeatTiming {
  last_ms: number;
  /** The time between the last two heartbeats. */
  pause_seconds: number | null;
  interval_seconds: number | null;
}

export function recordBeat(previous: BeatTiming | undefined, now_ms: number): BeatTiming {
  if (!previous) return { last_ms: now_ms, pause_seconds: null, interval_seconds: null };
  const pause_seconds = Math.max(0, (now_ms - previous.last_ms) / 1000);
  const { pause_seconds: previousPause, interval_seconds } = previous;
  return {
    last_ms: now_ms,
    pause_seconds,
    interval_seconds: previousPause === null ? interval_seconds : Math.min(previousPause, pause_seconds),
  };
}

export interface PaceFacts {
  announced_seconds: number | null;
  /** The interval that this replica measured, or else the one that was last used. */
  measured_seconds: number | null;
  /** The pool's interval, used while nothing is announced or measured. */
  usual_seconds: number;
  stale_after_seconds: number;
  /** The granted lease: the client need not send anything until it ends. */
  lease_seconds?: number;
}

export interface Pace {
  interval_seconds: number;
  stale_seconds: number;
}

export function paceOf(facts: PaceFacts): Pace {
  const { announced_seconds, measured_seconds, usual_seconds, stale_after_seconds, lease_seconds = 0 } = facts;
  const fallback = announced_seconds === null && measured_seconds === null ? usual_seconds : 0;
  const interval_seconds = Math.min(
    Math.max(announced_seconds ?? 0, measured_seconds ?? 0, fallback),
    maxIntervalSeconds,
  );
  return {
    interval_seconds,
    stale_seconds: Math.max(effectiveStaleSeconds(stale_after_seconds, interval_seconds), lease_seconds),
  };
}

/** The fleet's heartbeat load and the share of each replica. */
export interface FleetLoad {
  /** Machines that are expected to send heartbeats. */
  nodes: number;
  /** Live replicas, including this one. */
  replicas: number;
  /** Heartbeats per second that one replica should receive. */
  beat_rate: number;
}

const jitter = 0.1;

/**
 * The interval to assign. `spread`: a random number from 0 to 1, so that machines that started
 * together drift apart. `stretch`: the factor of an overloaded replica.
 */
export function assignedIntervalSeconds(
  pool_interval_seconds: number,
  load: FleetLoad,
  spread: number,
  stretch = 1,
): number {
  const fairInterval = load.nodes / (load.beat_rate * Math.max(1, load.replicas));
  const interval = Math.max(pool_interval_seconds, fairInterval) * stretch * (1 + jitter * (2 * spread - 1));
  return Math.min(Math.round(interval * 1000) / 1000, maxIntervalSeconds);
}

/**
 * The longest interval that a reply may assign, given the stored stale time. The replica stores the
 * heartbeat and the assignment after it replies, so a crash can lose both. Other replicas then
 * still judge by the stored stale time, into which the intervals before and after the lost
 * heartbeat must fit. Intervals therefore grow by at most half per heartbeat.
 */
export const maxAssignableSeconds = (stored_stale_seconds: number): number =>
  Math.floor(500 * stored_stale_seconds) / 1000;

const units: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600 };
const duration = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h))+$/;
const durationPart = /(\d+(?:\.\d+)?)(ms|s|m|h)/g;

/** Parses `2s`, `500ms` or `1m30s`; null if the text is not a duration or the duration is zero. */
export function readDuration(text: string | null | undefined): number | null {
  if (!text || text.length > 64 || !duration.test(text)) return null;
  const seconds = [...text.matchAll(durationPart)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * (units[unit ?? ''] ?? 0),
    0,
  );
  return seconds > 0 ? Math.min(seconds, maxIntervalSeconds) : null;
}
