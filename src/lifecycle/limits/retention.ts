/** How long evidence is kept, by layer, and in how large pieces it is dropped. Pure. */

const daySeconds = 24 * 3600;

/** The layers that say who decided what are kept longest; those that machines fill, for a season. */
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

const piecesKept = 4;
const widestDays = 365;

/** A layer lives in a handful of pieces, whatever its time: each one more is looked into by whoever reads a timeline. */
export const partitionSeconds = (keep_seconds: number): number =>
  Math.min(widestDays, Math.max(1, Math.ceil(keep_seconds / daySeconds / piecesKept))) * daySeconds;

/** The midnight (UTC) after a moment; pieces begin and end there. */
export const midnightAfter = (moment: Date): number =>
  (Math.floor(moment.getTime() / 1000 / daySeconds) + 1) * daySeconds * 1000;

export interface LogSettings {
  /** All instances of a node together. Beyond this the store deletes the oldest lines. */
  most_bytes_per_node: number;
}

/**
 * Lines count with their compressed size, but with at least an eighth of their raw size: repeated
 * lines compress a thousandfold, and reading or searching them costs their raw size.
 */
export const maxCompressionCredit = 8;

export const defaultLogSettings: LogSettings = { most_bytes_per_node: 256 * 1024 * 1024 };
