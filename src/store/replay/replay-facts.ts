/**
 * Reads the recorded boots, deadline moves and status changes of a pool for a replay, up to a
 * limit.
 */
import type { SampleOutcome, SamplePhase } from '../../lifecycle/boots/boot-samples.ts';
import type { BudgetSource } from '../../lifecycle/deadlines/budgets.ts';
import { type NodeStatus, nodeStatuses } from '../../lifecycle/model/states.ts';
import { recordedByServerSql } from '../evidence/own-facts.ts';
import type { Queryable } from '../pg/database.ts';
import { advanceKinds } from '../transitions/advance.ts';

export interface ReplayRange {
  pool: string;
  since: Date;
  until: Date;
  /** Limits the boots and, separately, the facts. */
  max_rows: number;
}

export interface BootRow {
  node_id: string;
  node_instance_id: string;
  pool_generation: number;
  phase: SamplePhase;
  started_at: Date;
  seconds: number;
  outcome: SampleOutcome | 'running';
  lateness_seconds: number | null;
  budget_seconds: number;
  budget_source: BudgetSource;
  requested_seconds: number | null;
}

/** Reads one row more than the limit, to know whether there are more. */
const endedBoots = `
  select sample.node_id, sample.node_instance_id, sample.pool_generation, sample.phase,
    sample.started_at, sample.seconds, sample.outcome, sample.lateness_seconds,
    sample.budget_seconds, sample.budget_source, sample.at
  from unnest(array['provision', 'start']) as wanted(phase)
  cross join lateral (
    select * from boot_samples
    where pool = $1
      and phase = wanted.phase
      and at >= $2
      and at <= $3
      and budget_seconds is not null
      and budget_source is not null
    order by at desc
    limit $4::int + 1
  ) sample`;

const runningBoots = `
  select node_id, node_instance_id, pool_generation,
    case status when 'starting' then 'start' else 'provision' end, began.at,
    extract(epoch from $3::timestamptz - began.at), 'running', null,
    budget_seconds, budget_source, $3::timestamptz
  from nodes
  cross join lateral (
    select case status when 'starting' then registered_at else clock_from end as at
  ) began
  where pool = $1
    and status in ('provisioning', 'starting')
    and began.at < $3
    and node_instance_id is not null
    -- A node that waits for capacity has not begun to boot.
    and waiting_for is distinct from 'capacity'
    and budget_seconds is not null
    and budget_source is not null`;

export const readBoots = (db: Queryable, { pool, since, until, max_rows }: ReplayRange): Promise<BootRow[]> =>
  db.query<BootRow>(
    `select boot.*, node.requested_provision_seconds as requested_seconds
     from (${endedBoots} union all ${runningBoots}) boot
     left join nodes node on node.node_id = boot.node_id
     order by boot.at desc
     limit $4::int + 1`,
    [pool, since, until, max_rows],
  );

/** Reads the times, in milliseconds, at which each instance showed progress of its boot. */
export async function readAdvances(db: Queryable, instances: readonly string[]): Promise<Map<string, number[]>> {
  const rows = await db.query<{ node_instance_id: string; moments: number[] }>(
    `select node_instance_id, json_agg(extract(epoch from seen_at) * 1000 order by seen_at) as moments
     from boot_signs
     where node_instance_id = any($1)
       and kind = any($2)
     group by 1`,
    [instances, advanceKinds],
  );
  return new Map(rows.map(({ node_instance_id, moments }) => [node_instance_id, moments]));
}

export interface FactRow {
  at: Date;
  layer: string;
  kind: string;
  node_id: string;
  node_instance_id: string | null;
  /** The node's present generation, which may differ from the one at the time of the fact. */
  pool_generation: number;
  from: NodeStatus | 'new' | null;
  to: NodeStatus | null;
  by: string | null;
  reason: string | null;
  /** This field and the next three are the evidence of a verdict. */
  due_at: Date | null;
  last_seen_at: Date | null;
  stale_seconds: number | null;
  certain: boolean | null;
  /** The new deadline, and in `before` the deadline that it replaced. */
  deadline_at: Date | null;
  before: Date | null;
  budget_seconds: number | null;
  held_rule: string | null;
}

const replayedKinds = [
  ...Object.keys(nodeStatuses).map((status) => `node.${status}`),
  'node.would_have',
  'node.deadline_moved',
];

/**
 * Reads the newest facts about nodes of the pool, oldest first. Of the holds, reads only those for
 * mass failures, because only these depend on the pool's policy.
 */
export async function readFacts(
  db: Queryable,
  { pool, since, until, max_rows }: ReplayRange,
): Promise<{ facts: FactRow[]; more: boolean }> {
  const rows = await db.query<FactRow>(
    `select fact.at, fact.layer, fact.kind, fact.node_id, fact.node_instance_id, node.pool_generation,
       data ->> 'from' as from,
       data ->> 'to' as to,
       data ->> 'by' as by,
       coalesce(data ->> 'reason', data #>> '{set,held,reason}') as reason,
       (data #>> '{evidence,deadline_at}')::timestamptz as due_at,
       (data #>> '{evidence,last_seen_at}')::timestamptz as last_seen_at,
       (data #>> '{evidence,stale_seconds}')::double precision as stale_seconds,
       (data #>> '{evidence,certain}')::boolean as certain,
       (data #>> '{set,deadline_at}')::timestamptz as deadline_at,
       (data ->> 'before')::timestamptz as before,
       (data #>> '{set,budget_seconds}')::double precision as budget_seconds,
       case fact.kind when 'node.held' then data ->> 'rule' end as held_rule
     from nodes node
     join evidence fact on fact.node_id = node.node_id
     where node.pool = $1
       and fact.at >= $2
       and fact.at <= $3
       and ${recordedByServerSql('fact')}
       and (fact.kind = any($5) or (fact.kind = 'node.held' and data ->> 'kind' = 'mass-failure'))
     order by fact.at desc, fact.xid desc, fact.seq desc
     limit $4::int + 1`,
    [pool, since, until, max_rows, replayedKinds],
  );
  return { facts: rows.slice(0, max_rows).reverse(), more: rows.length > max_rows };
}

export async function countByPresentStatus(db: Queryable, pool: string): Promise<Partial<Record<NodeStatus, number>>> {
  const rows = await db.query<{ status: NodeStatus; count: number }>(
    'select status, count(*)::int as count from nodes where pool = $1 group by 1',
    [pool],
  );
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
}
