/** Whether this replica hears, as the rules ask before they judge a machine by its silence. */
import type { Listened } from '../../store/rows/fleet/fleet-load.ts';

export interface IngestWatch {
  check(): Promise<{ gap: boolean }>;
  /** Whether this replica has lately made sure that it hears. */
  isSteady(): boolean;
  /** The shortest stale time of any pool. */
  tightestStaleSeconds(): number;
  /** How many machines there are to hear, and how many replicas hear them. */
  listened(): Listened;
}
