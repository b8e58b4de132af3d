/**
 * Polls the operation in `state` once, and no earlier than Azure wants. A failed poll counts as
 * still running.
 */
import type { DriverState, DriverTarget } from '../../driver.ts';
import type { AksHost, Placed } from '../aks-host.ts';
import type { Azure } from '../azure/azure.ts';
import { type ProviderError, retryAfterOf } from '../azure/azure-error.ts';

export interface Followed {
  state: 'running' | 'succeeded' | 'failed' | 'canceled';
  error: ProviderError | null;
  keep: DriverState;
}

const stillRunning = (keep: DriverState): Followed => ({ state: 'running', error: null, keep });

export async function followOperation(
  host: AksHost,
  azure: Azure,
  { operation, operation_next_at_ms }: DriverState,
  { ignore_interval = false } = {},
): Promise<Followed | null> {
  if (typeof operation !== 'string') return null;
  const now_ms = host.clock.nowMs();
  if (!ignore_interval && typeof operation_next_at_ms === 'number' && now_ms < operation_next_at_ms)
    return stillRunning({});
  const later = (seconds: number | null) => now_ms + (seconds ?? host.look_seconds) * 1000;
  try {
    const seen = await azure.clusters.follow(operation);
    if (!seen) return null;
    return {
      state: seen.state,
      error: seen.error,
      keep: { operation: seen.operation, operation_next_at_ms: later(seen.retry_after_seconds) },
    };
  } catch (error) {
    return stillRunning({ operation_next_at_ms: later(retryAfterOf(error, now_ms)) });
  }
}

// A cluster is recorded before it is requested. The process may die before the answer, and Azure
// may show the cluster late: a successor that looks at once would see nothing and call it absent.

/** How long after its record a request may be sent. */
const sent_within_ms = 10_000;
/**
 * How long after its record an invisible cluster may still appear. Later it counts as absent,
 * because its request has timed out.
 */
const shown_within_ms = 40_000;

const age = ({ asked_at_ms }: DriverState, now_ms: number) =>
  typeof asked_at_ms === 'number' ? now_ms - asked_at_ms : Number.POSITIVE_INFINITY;

export const isRecorded = (state: DriverState, now_ms: number): boolean => age(state, now_ms) < sent_within_ms;

export const mayStillAppear = (state: DriverState, now_ms: number): boolean => age(state, now_ms) < shown_within_ms;

/** Whether a requested cluster may still appear. It can be deleted only after it has appeared. */
export async function isComing(host: AksHost, { azure, place }: Placed, { state }: DriverTarget): Promise<boolean> {
  if (state.cluster_seen === true) return false;
  if (typeof state.operation === 'string') return (await followOperation(host, azure, state))?.state === 'running';
  // A group of its own is deleted with whatever appears in it.
  return !place.own_group && mayStillAppear(state, host.clock.nowMs());
}
