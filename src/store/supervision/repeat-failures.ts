/** Finds nodes and pool generations whose provisions fail repeatedly. */
import type { NodeId } from '../../base/ids.ts';
import { recordedByServerSql } from '../evidence/own-facts.ts';
import type { Queryable } from '../pg/database.ts';
import type { Disagreement } from '../rows/findings.ts';

export interface FailingSubject {
  what: 'node_provisions' | 'pool_provisions';
  subject: string;
  pool: string;
  pool_generation: number;
  node_id: NodeId | null;
  failures: number;
}

export interface FailureQuery {
  since: Date;
  min_failures: number;
  window_seconds: number;
}

const maxListed = 20;

const fromFailures = `
  from evidence fact
  join nodes node on node.node_id = fact.node_id
  where fact.kind = 'node.failed'
    and ${recordedByServerSql('fact')}
    and fact.at > $1
    and fact.data ->> 'from' in ('provisioning', 'starting')
    -- A rescued machine did not fail.
    and not exists (
      select 1
      from boot_samples sample
      where sample.node_instance_id = fact.node_instance_id
        and sample.outcome = 'late')`;

/** For pools, counts only the present generation, because earlier ones had another document. */
export const findFailingSubjects = (db: Queryable, { since, min_failures }: FailureQuery): Promise<FailingSubject[]> =>
  db.query<FailingSubject>(
    `with counted as materialized (
       select fact.node_id, node.pool, node.pool_generation, count(*)::int as failures
       ${fromFailures}
       group by 1, 2, 3)
     select 'node_provisions' as what, node_id as subject, pool, pool_generation, node_id, failures
     from counted
     where failures >= $2
     union all
     select
       'pool_provisions',
       counted.pool || '/' || counted.pool_generation,
       counted.pool,
       counted.pool_generation,
       null,
       sum(counted.failures)::int
     from counted
     join pools
       on pools.name = counted.pool
       and pools.generation = counted.pool_generation
       and pools.deleted_at is null
     group by counted.pool, counted.pool_generation
     having sum(counted.failures) >= $2`,
    [since, min_failures],
  );

const newestFailures = (condition: string) => `
  (select coalesce(jsonb_agg(failure order by failure ->> 'at' desc), '[]')
   from (
     select jsonb_build_object(
       'node_id', fact.node_id,
       'node_instance_id', fact.node_instance_id,
       'at', fact.at,
       'by', fact.data ->> 'by',
       'code', fact.data #>> '{evidence,code}',
       'reason', fact.data ->> 'reason') as failure
     ${fromFailures}
       and ${condition}
     order by fact.at desc
     limit ${maxListed}) last)`;

/** Builds findings that count all failures of the window and list the newest. */
export async function buildFailureFindings(
  db: Queryable,
  subjects: readonly FailingSubject[],
  { since, min_failures, window_seconds }: FailureQuery,
): Promise<Disagreement[]> {
  if (subjects.length === 0) return [];
  const lists = await db.query<{ newest: Record<string, unknown>[] }>(
    `select case
         when subject.node_id is not null
         then ${newestFailures('fact.node_id = subject.node_id')}
         else ${newestFailures('node.pool = subject.pool and node.pool_generation = subject.pool_generation')}
       end as newest
     from unnest($2::text[], $3::text[], $4::int[]) with ordinality as subject(node_id, pool, pool_generation, place)
     order by place`,
    [
      since,
      subjects.map(({ node_id }) => node_id),
      subjects.map(({ pool }) => pool),
      subjects.map(({ pool_generation }) => pool_generation),
    ],
  );
  return subjects.map(({ what, subject, pool, pool_generation, node_id, failures }, index) => ({
    what,
    subject,
    pool,
    node_id,
    node_instance_id: null,
    allocation_id: null,
    ours: { pool, generation: pool_generation, failures_allowed: min_failures - 1, window_seconds },
    theirs: { failures, newest: lists[index]?.newest ?? [] },
  }));
}
