/**
 * Decides which work an overloaded replica sheds. First it refuses lists and overviews. Then it
 * also assigns longer heartbeat intervals. It still counts the heartbeats that it answers with a
 * longer interval, and never delays a status change.
 */

/** Measured over the last few seconds. */
export interface ReplicaLoad {
  /** The delay of the replica's own timers. */
  loop_lag_ms: number;
  /** How long heartbeats waited until they were stored. */
  behind_ms: number;
  beats_per_second: number;
  /** The configured heartbeats per second. */
  beat_rate: number;
}

export interface Shedding {
  reads: boolean;
  beats: boolean;
  /** Factor on the assigned intervals. */
  stretch: number;
}

/**
 * The load at which shedding starts. It is far above short peaks, because users notice shedding.
 */
const threshold = { loop_lag_ms: 1_000, behind_ms: 2_000, rate_factor: 2 };
/**
 * Any machine handles this many heartbeats per second. A lower configured rate lengthens intervals,
 * but is no reason to refuse requests.
 */
const minRate = 100;
const shedsReadsFrom = 1;
const shedsBeatsFrom = 2;
/** Liveness detects failures later while intervals are long, so the factor is bounded. */
const maxStretch = 4;

export function pressureOf({ loop_lag_ms, behind_ms, beats_per_second, beat_rate }: ReplicaLoad): number {
  return Math.max(
    loop_lag_ms / threshold.loop_lag_ms,
    behind_ms / threshold.behind_ms,
    beats_per_second / (threshold.rate_factor * Math.max(beat_rate, minRate)),
  );
}

export function decideShedding(load: ReplicaLoad): Shedding {
  const pressure = pressureOf(load);
  const beats = pressure >= shedsBeatsFrom;
  return { reads: pressure >= shedsReadsFrom, beats, stretch: beats ? Math.min(pressure, maxStretch) : 1 };
}
