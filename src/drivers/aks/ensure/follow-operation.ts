/**
 * Polls the operation that is stored in `state`, but not earlier than Azure asks. If the poll
 * fails, the operation counts as still running.
 */
import type { DriverState, DriverTarget } from '../../driver.ts';
import type { AksHost, AzurePlace } from '../aks-host.ts';
import type { Azure } from '../azure/azure.ts';
import { type ProviderError, retryAfterOf } from '../azure/azure-error.ts';

export interface PolledOperation {
  state: 'running' | 'succeeded' | 'failed' | 'canceled';
  error: ProviderError | null;
  /** The fields to store in the instance's state. */
  driver_state: DriverState;
}

const runningOperation = (driver_state: DriverState): PolledOperation => ({
  state: 'running',
  error: null,
  driver_state,
});

/** Returns null if there is no operation, or Azure no longer has the operation. */
export async function followOperation(
  host: AksHost,
  azure: Azure,
  { operation, operation_next_at_ms }: DriverState,
  { ignore_interval = false } = {},
): Promise<PolledOperation | null> {
  if (typeof operation !== 'string') return null;
  const now_ms = host.clock.nowMs();
  if (!ignore_interval && typeof operation_next_at_ms === 'number' && now_ms < operation_next_at_ms)
    return runningOperation({});
  const nextPollMs = (seconds: number | null) => now_ms + (seconds ?? host.poll_seconds) * 1000;
  try {
    const status = await azure.clusters.pollOperation(operation);
    if (!status) return null;
    return {
      state: status.state,
      error: status.error,
      driver_state: { operation: status.operation, operation_next_at_ms: nextPollMs(status.retry_after_seconds) },
    };
  } catch (error) {
    return runningOperation({ operation_next_at_ms: nextPollMs(retryAfterOf(error, now_ms)) });
  }
}

// `asked_at_ms` is stored before the request for a cluster is sent. The process may die before the
// answer, and Azure may show the cluster late. Without the record, another replica would then
// report the cluster as absent.

/** A request must be sent within this time after its record was stored. */
const sent_within_ms = 10_000;
/**
 * A cluster may still appear within this time after its record was stored. After that it counts as
 * absent, because its request has timed out.
 */
const visible_within_ms = 40_000;

const recordAgeMs = ({ asked_at_ms }: DriverState, now_ms: number) =>
  typeof asked_at_ms === 'number' ? now_ms - asked_at_ms : Number.POSITIVE_INFINITY;

/** Whether a request may be sent under the stored record. */
export const isRequestRecorded = (state: DriverState, now_ms: number): boolean =>
  recordAgeMs(state, now_ms) < sent_within_ms;

const mayStillAppear = (state: DriverState, now_ms: number): boolean => recordAgeMs(state, now_ms) < visible_within_ms;

/** Whether a requested cluster may still appear. Azure can delete it only after it has appeared. */
export async function isClusterPending(
  host: AksHost,
  { azure, place }: AzurePlace,
  { state }: DriverTarget,
): Promise<boolean> {
  if (state.cluster_seen === true) return false;
  if (typeof state.operation === 'string') return (await followOperation(host, azure, state))?.state === 'running';
  // If the instance has its own group, deleting the group also deletes a cluster that appears late.
  return !place.own_group && mayStillAppear(state, host.clock.nowMs());
}
