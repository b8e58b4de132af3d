/** How often a machine sends heartbeats, and how long it may be silent. */

export interface HeartbeatSettings {
  interval_seconds?: number;
  stale_after_seconds?: number;
}

export const defaultIntervalSeconds = 10;
const staleFloorSeconds = 30;

export function heartbeatPolicy(settings: HeartbeatSettings = {}): {
  interval_seconds: number;
  stale_after_seconds: number;
} {
  const interval_seconds = settings.interval_seconds ?? defaultIntervalSeconds;
  return {
    interval_seconds,
    stale_after_seconds: settings.stale_after_seconds ?? Math.max(3 * interval_seconds, staleFloorSeconds),
  };
}

/** A node is not stale before three assigned intervals have passed. */
export const effectiveStaleSeconds = (staleAfterSeconds: number, intervalSeconds: number) =>
  Math.max(staleAfterSeconds, 3 * intervalSeconds);
