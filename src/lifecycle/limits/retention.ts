/** How long evidence and how many log lines are kept. */

const daySeconds = 24 * 3600;

/** The evidence of layers that record decisions is kept longest. */
export const defaultKeepSeconds = {
  node: 90 * daySeconds,
  provider: 90 * daySeconds,
  api: 400 * daySeconds,
  workflow: 90 * daySeconds,
  rule: 400 * daySeconds,
  operator: 400 * daySeconds,
  store: 90 * daySeconds,
  transport: 90 * daySeconds,
} as const;

export type KeepSeconds = Record<keyof typeof defaultKeepSeconds, number>;

const partitionsPerLayer = 4;
const maxDays = 365;

/**
 * The width of a partition. A layer has only a handful of partitions, whatever its retention,
 * because reading a timeline opens each of them.
 */
export const partitionSeconds = (keep_seconds: number): number =>
  Math.min(maxDays, Math.max(1, Math.ceil(keep_seconds / daySeconds / partitionsPerLayer))) * daySeconds;

/** The midnight (UTC) after a time. Partitions begin and end at midnight. */
export const midnightAfter = (moment: Date): number =>
  (Math.floor(moment.getTime() / 1000 / daySeconds) + 1) * daySeconds * 1000;

export interface LogSettings {
  /**
   * The limit for all instances of a node together. Above it the store deletes the oldest lines.
   */
  most_bytes_per_node: number;
}

/**
 * Lines count with their compressed size, but with at least an eighth of their raw size. Repeated
 * lines compress a thousandfold, but reading or searching them costs their raw size.
 */
export const maxCompressionCredit = 8;

export const defaultLogSettings: LogSettings = { most_bytes_per_node: 256 * 1024 * 1024 };
