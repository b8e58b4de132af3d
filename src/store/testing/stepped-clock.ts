/**
 * For tests: steps the clock of a database, as a step of its host's clock would. A schema that
 * precedes pg_catalog in the search path has its own `clock_timestamp` and `now`, so every
 * statement of a later connection reads the stepped time.
 */
import { Client } from 'pg';

export interface SteppedClock {
  /** Moves the clock by these seconds, in addition to earlier steps. */
  step(seconds: number): Promise<void>;
  close(): Promise<void>;
}

const prepareSql = `
  create schema stepped;
  create table stepped.clock (stopped_at timestamptz, seconds double precision not null);
  create function stepped.clock_timestamp() returns timestamptz volatile language sql as $$
    select coalesce(stopped_at, pg_catalog.clock_timestamp()) + make_interval(secs => seconds)
    from stepped.clock
  $$;
  create function stepped.now() returns timestamptz volatile language sql as $$
    select coalesce(stopped_at, pg_catalog.now()) + make_interval(secs => seconds)
    from stepped.clock
  $$;
  grant usage on schema stepped to public;
  grant select on stepped.clock to public;
  do $$
  begin
    execute format('alter database %I set search_path = stepped, pg_catalog, public', current_database());
  end
  $$`;

/**
 * Call this before the server connects. With `is_stopped` the clock moves only by steps, so that a
 * test with a virtual clock does not depend on the speed of its machine.
 */
export async function steppedClock(
  url: string,
  { is_stopped = false }: { is_stopped?: boolean } = {},
): Promise<SteppedClock> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(prepareSql);
  await client.query('insert into stepped.clock values (case when $1 then pg_catalog.now() end, 0)', [is_stopped]);
  return {
    step: async (seconds) => {
      await client.query('update stepped.clock set seconds = seconds + $1', [seconds]);
    },
    close: () => client.end(),
  };
}
