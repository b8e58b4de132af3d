/**
 * Decides in SQL which nodes (`isDue`) and allocations are past their deadline, and locks them for
 * a sweep. Skips rows that another replica has locked.
 */
import { defaultBrakeSettings } from '../../lifecycle/brake/brake.ts';
import type { AllocationStatus, NodeStatus } from '../../lifecycle/model/states.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import { type JudgedNode, judgedColumns } from '../rows/judged.ts';
import { isUncovered } from '../rows/maintenance.ts';
import { generationOfAllocation, releaseRetryAt } from '../rows/release-retry-at.ts';
import { isRecordedOnly } from '../transitions/would-have.ts';

export type DueNode = JudgedNode & { last_seen_at: Date | null; stale_seconds: number | null };

/**
 * Silence is judged up to this time, because the slowest replica has stored all heartbeats before
 * it. A replica that lags longer than the self-fault hold no longer delays verdicts.
 */
const judgedThrough = `(
  select greatest(
    min(coalesce(flushed_through, started_at)),
    $2 - interval '${defaultBrakeSettings.self_fault_seconds} seconds')
  from replicas
  where ended_at is null
    and lease_until > $2)`;

/** Conditions of rules on due rows. They are in SQL so that other rows do not fill a batch. */
const conditions = {
  // A heartbeat from before the node's last transition says nothing about its present status.
  fresh:
    'beat.last_seen_at >= node.status_since and beat.last_seen_at + make_interval(secs => beat.stale_seconds) >= $2',
  // Neither an ingest gap nor a heartbeat that is not stored yet counts as silence.
  silent: `coalesce(greatest(beat.last_seen_at, (select max(ended_at) from ingest_gaps))
    + make_interval(secs => coalesce(beat.stale_seconds, 0)) < least($2, ${judgedThrough}), true)`,
  complete: `(node.prerequisites is null or node.prerequisites = 'met')`,
  incomplete: `node.prerequisites in ('unchecked', 'missing')`,
  // A running or failed release of an allocation cleans the machine up itself.
  unowned: `not exists (
    select 1
    from allocations owner
    where owner.node_id = node.node_id
      and owner.status in ('releasing', 'release_failed'))`,
} as const;

export type DueCondition = keyof typeof conditions;

export interface DueQuery {
  status: NodeStatus;
  /** Only negative verdicts are held, so a rule with a positive verdict ignores the hold. */
  ignores_hold?: boolean;
  /** Groups are joined by OR, conditions in a group by AND. No groups: every due row matches. */
  where?: readonly (readonly DueCondition[])[];
  now: Date;
}

const joinHeartbeats = 'left join heartbeats beat on beat.node_instance_id = node.node_instance_id';

const whereOf = ({ where = [] }: DueQuery): string =>
  where.length === 0
    ? ''
    : `and (${where.map((group) => `(${group.map((name) => conditions[name]).join(' and ')})`).join(' or ')})`;

/** The node is past its deadline, not held unless holds are ignored, and not `isRecordedOnly`. */
const isDue = (query: DueQuery) =>
  `node.status = $1
     and node.deadline_at <= $2
     and not ${isRecordedOnly}
     and (${query.ignores_hold ?? false} or node.held is null or (node.held ->> 'held_until')::timestamptz <= $2)
     ${whereOf(query)}`;

export function lockDueNodes(
  tx: Transaction,
  query: DueQuery,
  limit: number,
  except: readonly string[] = [],
): Promise<DueNode[]> {
  return tx.query<DueNode>(
    `select ${judgedColumns}, beat.last_seen_at, beat.stale_seconds
     from nodes node
     ${joinHeartbeats}
     where ${isDue(query)}
       and node.node_id <> all($4)
     order by node.deadline_at
     limit $3
     for no key update of node skip locked`,
    [query.status, query.now, limit, except],
    { prepared: true },
  );
}

export interface ScopeCount {
  pool: string;
  zone: string | null;
  count: number;
}

/**
 * Counts due nodes other than those in `exclude`, by pool and zone, for the brake. The count
 * includes nodes that are locked or beyond the batch, but no nodes under maintenance.
 */
export function countDueNodes(db: Queryable, query: DueQuery, exclude: readonly string[]): Promise<ScopeCount[]> {
  return db.query<ScopeCount>(
    `select node.pool, node.zone, count(*)::int as count
     from nodes node
     ${joinHeartbeats}
     where ${isDue(query)}
       and node.node_id <> all($3)
       and ${isUncovered('$2')}
     group by 1, 2`,
    [query.status, query.now, exclude],
  );
}

/** Returns when the next node is due. The sweep sleeps until then. */
export async function readNextDueAt(db: Queryable, status: NodeStatus, now: Date): Promise<Date | null> {
  const [row] = await db.query<{ next: Date | null }>(
    `select min(deadline_at) as next
     from nodes
     where status = $1
       and deadline_at > $2`,
    [status, now],
    { prepared: true },
  );
  return row?.next ?? null;
}

/** Locks draining nodes that have no holder and no leased task. */
export function lockEmptyNodes(tx: Transaction, limit: number): Promise<JudgedNode[]> {
  return tx.query<JudgedNode>(
    `select ${judgedColumns}
     from nodes node
     where node.status = 'draining'
       and not exists (
         select 1
         from allocations holder
         where holder.node_id = node.node_id
           and holder.status in ('provisioning', 'active', 'releasing', 'release_failed'))
       and not exists (
         select 1
         from tasks
         where tasks.node_instance_id = node.node_instance_id
           and tasks.status = 'leased')
     order by node.deadline_at
     limit $1
     for no key update of node skip locked`,
    [limit],
  );
}

export function lockDueAllocations(
  tx: Transaction,
  status: AllocationStatus,
  now: Date,
  limit: number,
): Promise<AllocationRow[]> {
  return tx.query<AllocationRow>(
    `select *
     from allocations
     where status = $1
       and deadline_at <= $2
     order by deadline_at
     limit $3
     for no key update skip locked`,
    [status, now, limit],
  );
}

const isRetryable = `allocation.status = 'release_failed' and ${releaseRetryAt} <= $1`;

/**
 * Locks failed releases whose backoff has ended. Nodes are locked before allocations, as in every
 * transition; another order could deadlock.
 */
export async function lockRetryableReleases(tx: Transaction, now: Date, limit: number): Promise<AllocationRow[]> {
  const machines = await tx.query<{ node_id: string }>(
    `select node.node_id
     from allocations allocation
     join ${generationOfAllocation}
     join nodes node on node.node_id = allocation.node_id
     where ${isRetryable}
     order by allocation.status_since
     limit $2
     for no key update of node skip locked`,
    [now, limit],
  );
  return tx.query<AllocationRow>(
    `select allocation.*
     from allocations allocation
     join ${generationOfAllocation}
     where ${isRetryable}
       and (allocation.node_id is null or allocation.node_id = any($3))
     order by allocation.status_since
     limit $2
     for no key update of allocation skip locked`,
    [now, limit, machines.map(({ node_id }) => node_id)],
  );
}

export type LostRelease = AllocationRow & { operation_ended: boolean };

/** Locks releases that are overdue, or whose operation ended without completing the release. */
export function lockLostReleases(tx: Transaction, now: Date, limit: number): Promise<LostRelease[]> {
  return tx.query(
    `select allocation.*, operation.finished_at is not null as operation_ended
     from allocations allocation
     left join operations operation on operation.workflow_id = allocation.workflow_id
     where allocation.status = 'releasing'
       and (allocation.deadline_at <= $1 or operation.finished_at is not null)
     order by allocation.deadline_at
     limit $2
     for no key update of allocation skip locked`,
    [now, limit],
  );
}
