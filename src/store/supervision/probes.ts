/** Selects nodes to probe, and stores the results. An operator may request a probe too. */
import type { KnownIds, NodeId, NodeInstanceId } from '../../base/ids.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Database, Queryable, Transaction } from '../pg/database.ts';
import { type JudgedNode, judgedColumns } from '../rows/judged.ts';
import { isRecordedOnly } from '../transitions/would-have.ts';

export interface ProbeSettings {
  path?: string;
  timeout_seconds?: number;
  allow_private?: boolean;
}

export interface ProbeTarget extends Required<ProbeSettings> {
  base_url: string;
}

/** `because` is the failure code of the probe. */
export interface ProbeOutcome {
  ok: boolean;
  detail: string;
  because?: string;
}

export const probeTargetOf = (base_url: string, settings: ProbeSettings | null): ProbeTarget => ({
  base_url,
  path: settings?.path ?? '/health',
  timeout_seconds: settings?.timeout_seconds ?? 2,
  allow_private: settings?.allow_private ?? false,
});

export interface ProbedNode {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  endpoint: string;
  settings: ProbeSettings | null;
}

const selectNodesToProbe = (condition: string, intervalSeconds: string, limit: number) => `
  select node.node_id, node.node_instance_id, node.endpoint, generation.document -> 'probe' as settings
  from nodes node
  join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
  left join heartbeats beat on beat.node_instance_id = node.node_instance_id
  left join probes probe on probe.node_instance_id = node.node_instance_id
  where node.endpoint is not null
    and node.node_instance_id is not null
    and ${condition}
    -- The node was not probed within its interval, which is between 0.5 s and 10 s.
    and (
      probe.tried_at is null
      or probe.tried_at + make_interval(secs => least(10, greatest(0.5, ${intervalSeconds}))) <= $1)
  order by probe.tried_at nulls first
  limit ${limit}`;

/**
 * Returns starting nodes and silent suspects that are due for a probe. Each kind has its own
 * `limit`, so that neither crowds out the other.
 */
export async function findNodesToProbe(
  db: Queryable,
  suspects: readonly string[],
  now: Date,
  limit: number,
): Promise<ProbedNode[]> {
  // This runs for every machine that registers. It is prepared, because planning was its main cost.
  const starting = await db.query<ProbedNode>(
    selectNodesToProbe(`node.status = 'starting'`, 'node.budget_seconds / 10', limit),
    [now],
    { prepared: true },
  );
  if (suspects.length === 0) return starting;
  const silent = await db.query<ProbedNode>(
    selectNodesToProbe(
      `node.node_id = any($2) and node.status in ('ready', 'degraded')`,
      'beat.stale_seconds / 6',
      limit,
    ),
    [now, suspects],
  );
  return [...starting, ...silent];
}

export interface ProbeResult {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  ok: boolean;
  /** Describes the answer or the failure. */
  detail: string;
  /** The ids of a person's request for this probe. Its result is recorded even if unchanged. */
  request_ids?: KnownIds;
}

/** Saves all results in one statement. Changed results and requested probes become evidence. */
export async function saveProbeResults(db: Database, results: ProbeResult[], now: Date): Promise<void> {
  if (results.length === 0) return;
  await db.transaction(async (tx) => {
    const previous = await tx.query<{ node_instance_id: NodeInstanceId; failure: string | null }>(
      `select node_instance_id, failure
       from probes
       where node_instance_id = any($1)
       order by node_instance_id
       for update`,
      [results.map((result) => result.node_instance_id)],
    );
    await tx.query(
      `insert into probes (node_instance_id, tried_at, ok_at, failure)
       select
         node_instance_id,
         $2::timestamptz,
         case when ok then $2::timestamptz end,
         case when ok then null else detail end
       from jsonb_to_recordset($1::jsonb) as result(node_instance_id text, ok boolean, detail text)
       order by node_instance_id
       on conflict (node_instance_id) do update set
         tried_at = excluded.tried_at,
         ok_at = coalesce(excluded.ok_at, probes.ok_at),
         failure = excluded.failure`,
      [JSON.stringify(results), now],
    );
    const previousOk = new Map(previous.map((row) => [row.node_instance_id, row.failure === null]));
    await recordEvidence(
      tx,
      results
        .filter((result) => result.request_ids || previousOk.get(result.node_instance_id) !== result.ok)
        .map(({ node_id, node_instance_id, ok, detail, request_ids }) => ({
          at: now,
          layer: 'transport',
          kind: ok ? 'probe.answered' : 'probe.unanswered',
          summary: ok
            ? `the machine answers its probe (${detail})`
            : `the machine does not answer its probe: ${detail}`,
          data: { detail },
          ...request_ids,
          node_id,
          node_instance_id,
        })),
    );
  });
}

/** Locks starting nodes that have answered a probe or finished a task since they registered. */
export function lockProvenNodes(
  tx: Transaction,
  limit: number,
  except: readonly string[],
): Promise<(JudgedNode & { probe_ok_at: Date | null })[]> {
  return tx.query(
    `select ${judgedColumns}, probe.ok_at as probe_ok_at
     from nodes node
     left join probes probe on probe.node_instance_id = node.node_instance_id
     where node.status = 'starting'
       and node.deadline_at is not null
       and node.node_id <> all($2)
       and (node.prerequisites is null or node.prerequisites = 'met')
       and not ${isRecordedOnly}
       and (
         probe.ok_at >= node.registered_at
         or exists (
           select 1
           from tasks task
           where task.node_instance_id = node.node_instance_id
             and task.status = 'succeeded'
             and task.finished_at >= node.registered_at))
     order by node.deadline_at
     limit $1
     for no key update of node skip locked`,
    [limit, except],
  );
}
