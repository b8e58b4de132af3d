/**
 * Decides which work an overloaded replica sheds. First it refuses lists and overviews. Then it
 * also assigns longer heartbeat intervals. It still counts the heartbeats that it answers with a
 * longer interval, and never delays a status change. A replica that is short of memory, file
 * descriptors or database connections refuses lists and new work, and still serves heartbeats. If
 * the database is short of disk space, only new work that changes something is refused.
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
  /** The disk of the database is full or nearly full. */
  is_short_of_disk: boolean;
}

export type Shortage = Pick<ReplicaLoad, 'heap_share' | 'files_share' | 'is_short_of_connections' | 'is_short_of_disk'>;

export const noShortage: Shortage = {
  heap_share: 0,
  files_share: 0,
  is_short_of_connections: false,
  is_short_of_disk: false,
};

export interface Shedding {
  reads: boolean;
  beats: boolean;
  /** Requests that start something new, or that hold memory or a connection for long. */
  work: boolean;
  /** Requests that start something new and change rows. Reads need no disk space. */
  changes: boolean;
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
 * PostgreSQL stops when it cannot extend its log, so heartbeats and releases get the last
 * `disk_share` of the disk, but at most `disk_bytes`.
 */
export const shortage = { heap_share: 0.85, files_share: 0.97, disk_share: 0.02, disk_bytes: 512 * 1024 ** 2 };

export type Resource = 'memory' | 'files' | 'connections' | 'disk';

const isShortOf: Record<Resource, (load: Shortage) => boolean> = {
  memory: ({ heap_share }) => heap_share >= shortage.heap_share,
  files: ({ files_share }) => files_share >= shortage.files_share,
  connections: ({ is_short_of_connections }) => is_short_of_connections,
  disk: ({ is_short_of_disk }) => is_short_of_disk,
};

export const shortResources = (load: Shortage): Resource[] =>
  (Object.keys(isShortOf) as Resource[]).filter((resource) => isShortOf[resource](load));

/** Whether the disk of the database has too little free space for new work. */
export const isDiskShort = ({ free_bytes, total_bytes }: { free_bytes: number; total_bytes: number }): boolean =>
  free_bytes < Math.min(shortage.disk_share * total_bytes, shortage.disk_bytes);

export function decideShedding(load: ReplicaLoad): Shedding {
  const pressure = pressureOf(load);
  const beats = pressure >= minPressureForBeats;
  const short = shortResources(load);
  const work = short.some((resource) => resource !== 'disk');
  return {
    reads: pressure >= minPressureForReads || work,
    beats,
    work,
    changes: short.length > 0,
    stretch: beats ? Math.min(pressure, maxStretch) : 1,
  };
}
