/** Reads the boots in which a slowdown is detected: a bounded sample per pool, and their stages. */
import { secondsLater } from '../../base/clock.ts';
import type { SamplePhase } from '../../lifecycle/boots/boot-samples.ts';
import { maxComparedAgeSeconds } from '../../lifecycle/boots/boot-shift.ts';
import type { ComparedBoot } from '../../lifecycle/boots/shift-finding.ts';
import type { TimedStage } from '../../lifecycle/boots/slow-stages.ts';
import type { Queryable } from '../pg/database.ts';
import type { KnownDocument } from '../rows/pools.ts';

export interface BootedPool {
  pool: string;
  phase: SamplePhase;
  document: KnownDocument;
}

/** The subject of a finding about the boots of a pool. */
export const bootSubject = ({ pool, phase }: Pick<BootedPool, 'pool' | 'phase'>): string => `${pool}/${phase}`;

/**
 * Finds pools with boots that ended after `since`, or with any boot if `since` is null. Always
 * includes the pools of `alwaysSubjects`.
 */
export const listBootedPools = (
  db: Queryable,
  since: Date | null,
  alwaysSubjects: readonly string[],
): Promise<BootedPool[]> =>
  db.query<BootedPool>(
    `select
       pool.name as pool,
       phase.phase,
       generation.document || jsonb_build_object('learned', pool.learned) as document
     from pools pool
     join pool_generations generation
       on generation.pool = pool.name
       and generation.generation = pool.generation
     cross join unnest(array['provision', 'start']) as phase(phase)
     where pool.deleted_at is null
       and (
         pool.name || '/' || phase.phase = any($2)
         or exists (
           select 1
           from boot_samples sample
           where sample.pool = pool.name
             and sample.phase = phase.phase
             and sample.at > coalesce($1::timestamptz, '-infinity')))
     order by 1, 2`,
    [since, alwaysSubjects],
  );

/** This many newest boots are read in addition to the sample. */
const maxNewest = 300;

/**
 * Bounds the rows: up to 12 boots of every two hours of the last nine days, and 20 of every earlier
 * day. Boots are sampled by start time, which does not depend on their duration. Two-hour spans
 * start at fixed times, so each pass samples the same boots and a detected change keeps its
 * position. $3 is now, $4 the earliest start.
 */
const spans = `
  select at as from_at, at + interval '2 hours' as to_at, 12 as max_boots
  from generate_series(date_bin('2 hours', $3::timestamptz - interval '9 days', '2000-01-01Z'), $3, interval '2 hours') as at
  union all
  select at, at + interval '1 day', 20
  from generate_series($4::timestamptz, $3::timestamptz - interval '9 days', interval '1 day') as at`;

const sampledBoots = `
  select sample.pool, sample.phase, node_id, node_instance_id, pool_generation, image, started_at, seconds, outcome
  from boot_samples sample
  where sample.pool = subject.pool
    and sample.phase = subject.phase`;

/** Reads the sampled boots of each `bootSubject`, in the order of their start. */
export async function readBootsToCompare(
  db: Queryable,
  subjects: readonly Pick<BootedPool, 'pool' | 'phase'>[],
  now: Date,
): Promise<Map<string, ComparedBoot[]>> {
  const rows = await db.query<ComparedBoot & Pick<BootedPool, 'pool' | 'phase'>>(
    `with subject as (
       select *
       from unnest($1::text[], $2::text[]) as subject(pool, phase)),
     span as materialized (${spans})
     select boot.*
     from subject
     cross join span
     cross join lateral (
       ${sampledBoots}
         and started_at >= from_at
         and started_at < to_at
       order by started_at
       limit max_boots) boot
     union
     select boot.*
     from subject
     cross join lateral (
       ${sampledBoots}
         and started_at >= $4
       order by started_at desc
       limit ${maxNewest}) boot
     order by started_at, node_instance_id`,
    [
      subjects.map(({ pool }) => pool),
      subjects.map(({ phase }) => phase),
      now,
      secondsLater(now, -maxComparedAgeSeconds),
    ],
  );
  return Map.groupBy(rows, bootSubject);
}

/** Reads the boot stages of these instances, with their durations. */
export async function readStagesOfBoots(
  db: Queryable,
  node_instance_ids: readonly string[],
): Promise<Map<string, TimedStage[]>> {
  const rows = await db.query<{ node_instance_id: string; name: string; parent: string; seconds: number }>(
    `select node_instance_id, name, parent, seconds
     from boot_stages
     where node_instance_id = any($1)`,
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
