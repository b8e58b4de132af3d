/**
 * Decides which work an overloaded replica sheds. First it refuses lists and overviews. Then it
 * also assigns longer heartbeat intervals. It still counts the heartbeats that it answers with a
 * longer interval, and never delays a status change. A replica that is short of memory, file
 * descriptors or database connections refuses lists and new work, and still serves heartbeats.
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
  /** The part of the heap that the last full garbage collection left in use. */
  heap_share: number;
  /** The part of the file descriptors that is in use. */
  files_share: number;
  /** The database refuses further connections, and this replica has fewer than its maximum. */
  is_short_of_connections: boolean;
}

export const noShortage: Pick<ReplicaLoad, 'heap_share' | 'files_share' | 'is_short_of_connections'> = {
  heap_share: 0,
  files_share: 0,
  is_short_of_connections: false,
};

export interface Shedding {
  reads: boolean;
  beats: boolean;
  /** Requests that start something new, or that hold memory or a connection for long. */
  work: boolean;
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
const minPressureForReads = 1;
const minPressureForBeats = 2;
/** Liveness detects failures later while intervals are long, so the factor is bounded. */
const maxStretch = 4;

export function pressureOf({ loop_lag_ms, behind_ms, beats_per_second, beat_rate }: ReplicaLoad): number {
  return Math.max(
    loop_lag_ms / threshold.loop_lag_ms,
    behind_ms / threshold.behind_ms,
    beats_per_second / (threshold.rate_factor * Math.max(beat_rate, minRate)),
  );
}

/**
 * From these shares on, work is refused. Agents alone may take nine tenths of the descriptors, and
 * the server needs some for itself. A heap above its share is garbage-collected all the time.
 */
export const shortage = { heap_share: 0.85, files_share: 0.97 };

export const isShort = ({ heap_share, files_share, is_short_of_connections }: ReplicaLoad): boolean =>
  heap_share >= shortage.heap_share || files_share >= shortage.files_share || is_short_of_connections;

export function decideShedding(load: ReplicaLoad): Shedding {
  const pressure = pressureOf(load);
  const beats = pressure >= minPressureForBeats;
  const work = isShort(load);
  return {
    reads: pressure >= minPressureForReads || work,
    beats,
    work,
    stretch: beats ? Math.min(pressure, maxStretch) : 1,
  };
}
