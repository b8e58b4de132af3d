/** The one answer to "when is a failed release tried again": what the rule goes by is what everybody is shown. */

/** Doubling from the pool's base to its maximum; after `max_retries`, hourly, and never less often. Null unless it has failed. */
export const releaseRetryAt = `case when allocation.status = 'release_failed' then allocation.status_since + make_interval(secs =>
  case when allocation.release_tries > coalesce((generation.document #>> '{release,max_retries}')::int, 8) then 3600
  else least(3600, coalesce((generation.document #>> '{release,retry_max_seconds}')::double precision, 900),
    coalesce((generation.document #>> '{release,retry_base_seconds}')::double precision, 30) * power(2, greatest(0, allocation.release_tries - 1))) end) end`;

/** The pool as it is declared now, whatever the allocation was given by. */
export const generationOfAllocation = `pools pool on pool.name = allocation.pool
  join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation`;
