/**
 * Polls the operation in `state` once, and no earlier than Azure wants. A failed poll counts as
 * still running.
 */
import type { DriverState } from '../../driver.ts';
import type { AksHost } from '../aks-host.ts';
import type { Azure } from '../azure/azure.ts';
import { type ProviderError, retryAfterOf } from '../azure/azure-error.ts';

export interface Followed {
  state: 'running' | 'succeeded' | 'failed' | 'canceled';
  error: ProviderError | null;
  keep: DriverState;
}

const stillRunning = (keep: DriverState): Followed => ({ state: 'running', error: null, keep });

export async function follow(
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
