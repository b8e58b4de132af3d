/** What a pool says about giving its machines back. */
import type { PoolDocument } from '../../contract/pool.ts';
import type { RetryPolicy } from '../../engine/engine.ts';

export const reusesNodes = (pool: PoolDocument): boolean => pool.reuse ?? pool.driver === 'external';

/** Inside one release; between releases that failed, `release-retry` waits longer. */
export const releasePolicy = (pool: PoolDocument): RetryPolicy => ({
  tries: pool.release?.step_tries ?? 3,
  base_seconds: Math.min(pool.release?.retry_base_seconds ?? 30, 1),
  max_seconds: pool.release?.retry_max_seconds ?? 900,
});
