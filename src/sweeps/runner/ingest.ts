/** Shows whether this replica receives heartbeats. Rules check that before they judge silence. */
import type { HeartbeatLoad } from '../../store/rows/fleet/fleet-load.ts';

export interface IngestWatch {
  /**
   * Verifies that this replica receives heartbeats. `gap` is true if no replica received any for a
   * while.
   */
  check(): Promise<{ gap: boolean }>;
  /** Whether this replica has recently verified that it receives heartbeats. */
  isSteady(): boolean;
  /**
   * False for the time of a lease after the clock of the database jumped: the other replicas renew
   * their leases by the new clock first.
   */
  isClockSettled(): boolean;
  /** The shortest stale time of any pool. */
  tightestStaleSeconds(): number;
  /** The number of machines that send heartbeats, and of replicas that receive them. */
  heartbeatLoad(): HeartbeatLoad;
}
