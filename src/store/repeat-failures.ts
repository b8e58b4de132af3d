/** Provisions that fail again and again: of one node, or of machines made from one generation of a pool. Reads only. */
import type { NodeId } from '../base/ids.ts';
import type { Queryable } from './database.ts';
import type { Disagreement } from './findings.ts';

interface FailingRow {
  what: 'node_provisions' | 'pool_provisions';
  subject: string;
  pool: string;
  pool_generation: number;
  node_id: NodeId | null;
  failures: number;
  listed: Record<string, unknown>[];
}

const listed = 20;

/** Whoever came after all, inside its rescue window, did not fail. */
const failed = `
  select fact.node_id, fact.at, node.pool, node.pool_generation, jsonb_build_object('node_id', fact.node_id, 'node_instance_id', fact.node_instance_id,
    'at', fact.at, 'by', fact.data ->> 'by', 'reason', fact.data ->> 'reason') as told
  from evidence fact join nodes node on node.node_id = fact.node_id
  where fact.kind = 'node.failed' and fact.at > $1 and fact.data ->> 'from' in ('provisioning', 'starting')
    and not exists (select 1 from boot_samples sample where sample.node_instance_id = fact.node_instance_id and sample.outcome = 'late')`;

const counted = `count(*)::int as failures, to_jsonb((array_agg(told order by at desc))[1:${listed}]) as listed`;

/** A pool that was changed since then is made from something else now, so its old generation is no longer anybody's concern. */
export async function repeatedFailures(
  db: Queryable,
  { since, failures, window_seconds }: { since: Date; failures: number; window_seconds: number },
): Promise<Disagreement[]> {
  const rows = await db.query<FailingRow>(
    `with failed as materialized (${failed})
     select 'node_provisions' as what, node_id as subject, pool, pool_generation, node_id, ${counted}
     from failed group by node_id, pool, pool_generation having count(*) >= $2
     union all
     select 'pool_provisions', failed.pool || '/' || failed.pool_generation, failed.pool, failed.pool_generation, null, ${counted}
     from failed join pools on pools.name = failed.pool and pools.generation = failed.pool_generation and pools.deleted_at is null
     group by failed.pool, failed.pool_generation having count(*) >= $2`,
    [since, failures],
  );
  return rows.map(({ what, subject, pool, pool_generation, node_id, failures: count, listed: told }) => ({
    what,
    subject,
    pool,
    node_id,
    node_instance_id: null,
    allocation_id: null,
    ours: { pool, generation: pool_generation, failures_allowed: failures - 1, window_seconds },
    theirs: { failures: count, newest: told },
  }));
}
