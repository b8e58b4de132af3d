/** The boots that slower ones are told from: of which pools there are new ones, a fair choice of them, and their stages. Reads only. */
import { secondsLater } from '../../base/clock.ts';
import type { SamplePhase } from '../../lifecycle/boots/boot-samples.ts';
import { maxComparedAgeSeconds } from '../../lifecycle/boots/boot-shift.ts';
import type { RecordedBoot } from '../../lifecycle/boots/shift-finding.ts';
import type { TimedStage } from '../../lifecycle/boots/slow-stages.ts';
import type { Queryable } from '../pg/database.ts';
import type { KnownDocument } from '../rows/pools.ts';

export interface BootedPool {
  pool: string;
  phase: SamplePhase;
  document: KnownDocument;
}

/** What a finding about the boots of a pool is known by. */
export const bootsOf = ({ pool, phase }: Pick<BootedPool, 'pool' | 'phase'>): string => `${pool}/${phase}`;

/** Pools with boots that ended since then, or ever; and those that are asked about in any case, as long as they are there. */
export const bootedPools = (db: Queryable, since: Date | null, also: readonly string[]): Promise<BootedPool[]> =>
  db.query<BootedPool>(
    `select pool.name as pool, phase.phase, generation.document || jsonb_build_object('learned', pool.learned) as document from pools pool
     join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
     cross join unnest(array['provision', 'start']) as phase(phase)
     where pool.deleted_at is null and (pool.name || '/' || phase.phase = any($2) or exists (
       select 1 from boot_samples sample where sample.pool = pool.name and sample.phase = phase.phase
         and sample.at > coalesce($1::timestamptz, '-infinity')))
     order by 1, 2`,
    [since, also],
  );

/**
 * However many boots a pool has, about as many are read: the newest, some of every two hours of the last nine days, and some of every day before.
 * Chosen by when they began, which says nothing about how long they took. A change stays where it was seen until it is a week old.
 */
const newest = 300;
const chosen = `
  select at as from_at, at + interval '2 hours' as to_at, 12 as most
  from generate_series(date_bin('2 hours', $3::timestamptz - interval '9 days', '2000-01-01Z'), $3, interval '2 hours') as at
  union all
  select at, at + interval '1 day', 20
  from generate_series($4::timestamptz, $3::timestamptz - interval '9 days', interval '1 day') as at`;
const columns =
  'sample.pool, sample.phase, node_id, node_instance_id, pool_generation, image, started_at, seconds, outcome';
const ofOne = 'from boot_samples sample where sample.pool = asked.pool and sample.phase = asked.phase and started_at';

/** In the order in which they began, by `bootsOf`. */
export async function bootsToCompare(
  db: Queryable,
  asked: readonly Pick<BootedPool, 'pool' | 'phase'>[],
  now: Date,
): Promise<Map<string, RecordedBoot[]>> {
  const rows = await db.query<RecordedBoot & Pick<BootedPool, 'pool' | 'phase'>>(
    `with asked as (select * from unnest($1::text[], $2::text[]) as asked(pool, phase)), span as materialized (${chosen})
     select boot.* from asked cross join span cross join lateral
       (select ${columns} ${ofOne} >= from_at and started_at < to_at order by started_at limit most) boot
     union
     select boot.* from asked cross join lateral
       (select ${columns} ${ofOne} >= $4 order by started_at desc limit ${newest}) boot
     order by started_at, node_instance_id`,
    [asked.map(({ pool }) => pool), asked.map(({ phase }) => phase), now, secondsLater(now, -maxComparedAgeSeconds)],
  );
  return Map.groupBy(rows, bootsOf);
}

/** What these instances spent their boots on. */
export async function stagesOfBoots(
  db: Queryable,
  node_instance_ids: readonly string[],
): Promise<Map<string, TimedStage[]>> {
  const rows = await db.query<{ node_instance_id: string; name: string; parent: string; seconds: number }>(
    'select node_instance_id, name, parent, seconds from boot_stages where node_instance_id = any($1)',
    [node_instance_ids],
  );
  const byInstance = Map.groupBy(rows, ({ node_instance_id }) => node_instance_id);
  return new Map(
    [...byInstance].map(([id, stages]) => [
      id,
      stages.map(({ name, parent, seconds }) => ({ name, seconds, ...(parent && { parent }) })),
    ]),
  );
}
