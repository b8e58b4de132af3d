/** Whether this replica receives heartbeats; rules check it before they judge a silence. */
import type { HeartbeatLoad } from '../../store/rows/fleet/fleet-load.ts';

export interface IngestWatch {
  check(): Promise<{ gap: boolean }>;
  /** Whether this replica has recently verified that it receives heartbeats. */
  isSteady(): boolean;
  /** The shortest stale time of any pool. */
  tightestStaleSeconds(): number;
  /** The number of machines that send heartbeats, and of replicas that receive them. */
  listened(): HeartbeatLoad;
}
