/** SQL for the time at which a failed release is retried. The retry rule and the API share it. */

/**
 * The delay doubles from the pool's base delay up to its maximum, but at most an hour, and is an
 * hour after `max_retries`. Null unless the release has failed. Expects the aliases `allocation`
 * and `generation`.
 */
export const releaseRetryAt = `case
  when allocation.status = 'release_failed' then allocation.status_since + make_interval(secs => case
    when allocation.release_tries > coalesce((generation.document #>> '{release,max_retries}')::int, 8) then 3600
    else least(
      3600,
      coalesce((generation.document #>> '{release,retry_max_seconds}')::double precision, 900),
      coalesce((generation.document #>> '{release,retry_base_seconds}')::double precision, 30)
        * power(2, greatest(0, allocation.release_tries - 1))
    )
  end)
end`;

/** Joins the pool's present generation, not the one that the allocation's node was made from. */
export const generationOfAllocation = `pools pool on pool.name = allocation.pool
  join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation`;
