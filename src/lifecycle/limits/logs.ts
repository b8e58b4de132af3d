/** What the logs of nodes may cost. */

export interface LogSettings {
  /** In the store, all instances of a node together. Beyond it the oldest lines make way. */
  most_bytes_per_node: number;
}

/**
 * Lines count as they are stored, compressed, but at least an eighth of what was written: repeats compress a thousandfold, and
 * whoever reads or searches a log pays for what was written.
 */
export const rawBytesPerByte = 8;

export const defaultLogSettings: LogSettings = { most_bytes_per_node: 256 * 1024 * 1024 };
