/** What the logs of nodes may cost. */

export interface LogSettings {
  /** In the store and compressed, all instances of a node together. Beyond it the oldest lines make way. */
  most_bytes_per_node: number;
}

export const defaultLogSettings: LogSettings = { most_bytes_per_node: 256 * 1024 * 1024 };
