/**
 * Samples the size of the database about once an hour, and measures from the samples how fast it
 * grows.
 */
import type { DatabaseGrowth } from '../../lifecycle/findings/server-problems.ts';
import { type Queryable, single } from '../pg/database.ts';
import { countByStatus } from '../rows/counts.ts';

const hour = 3600;
const day = 24 * hour;
const keptSeconds = 8 * day;
/** A week contains the difference between working days and others. */
const measuredSeconds = 7 * day;
/** A shorter time would take a single burst for the rate. */
const minSpanSeconds = day;

/** Takes a sample if no replica took one in the last hour, and deletes old samples. */
export async function sampleSize(db: Queryable, now: Date): Promise<void> {
  const { retired: _, ...present } = (await countByStatus(db)).nodes;
  const nodes = Object.values(present).reduce((sum, count) => sum + count, 0);
  await db.query(
    `insert into size_samples (sampled_at, bytes, nodes)
     select $1, pg_database_size(current_database()), $2
     where not exists (
       select from size_samples
       where sampled_at > $1::timestamptz - make_interval(secs => $3)
         -- After its clock went back, the database has samples of the future.
         and sampled_at <= $1)
     on conflict do nothing`,
    [now, nodes, hour],
  );
  await db.query('delete from size_samples where sampled_at < $1::timestamptz - make_interval(secs => $2)', [
    now,
    keptSeconds,
  ]);
}

/** The slope of the samples of the last week. Null until they span a day. */
export async function readGrowth(db: Queryable, now: Date): Promise<Omit<DatabaseGrowth, 'is_on_disk'> | null> {
  const { bytes_per_second, nodes, span_seconds } = single(
    await db.query<{ bytes_per_second: number | null; nodes: number | null; span_seconds: number | null }>(
      `select
         regr_slope(bytes, age) as bytes_per_second,
         avg(nodes)::double precision as nodes,
         max(age) - min(age) as span_seconds
       from (
         select bytes, nodes, extract(epoch from sampled_at - $1::timestamptz)::double precision as age
         from size_samples
         where sampled_at between $1::timestamptz - make_interval(secs => $2) and $1) sample`,
      [now, measuredSeconds],
    ),
  );
  if (bytes_per_second === null || (span_seconds ?? 0) < minSpanSeconds) return null;
  const bytes_per_day = bytes_per_second * day;
  return { bytes_per_day, bytes_per_node_day: nodes ? bytes_per_day / nodes : null };
}
