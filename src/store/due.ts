/** Rows whose time has come, locked for the sweep that decides on them; rows another replica decides on are passed over. */
import type { AllocationId } from '../base/ids.ts';
import type { AllocationStatus, NodeStatus } from '../lifecycle/states.ts';
import type { AllocationRow } from './allocations.ts';
import type { Transaction } from './database.ts';
import type { NodeRow } from './nodes.ts';

export type DueNode = NodeRow & {
  last_seen_at: Date | null;
  stale_seconds: number | null;
  /** The allocation that still has a claim on the node. */
  owner: AllocationId | null;
};

export function lockDueNodes(tx: Transaction, status: NodeStatus, now: Date, limit: number): Promise<DueNode[]> {
  return tx.query<DueNode>(
    `select node.*, beat.last_seen_at, beat.stale_seconds, (select allocation_id from allocations where node_id = node.node_id
         and status in ('provisioning', 'active', 'releasing', 'release_failed')) as owner
     from nodes node left join heartbeats beat on beat.node_instance_id = node.node_instance_id
     where node.status = $1 and node.deadline_at <= $2 order by node.deadline_at limit $3 for no key update of node skip locked`,
    [status, now, limit],
  );
}

export function lockDueAllocations(
  tx: Transaction,
  status: AllocationStatus,
  now: Date,
  limit: number,
): Promise<AllocationRow[]> {
  return tx.query<AllocationRow>(
    `select * from allocations where status = $1 and deadline_at <= $2 order by deadline_at limit $3 for no key update skip locked`,
    [status, now, limit],
  );
}

/** Failed releases whose backoff is over: doubling from the pool's base to its maximum; after `max_retries`, hourly. */
export function lockRetryableReleases(tx: Transaction, now: Date, limit: number): Promise<AllocationRow[]> {
  return tx.query<AllocationRow>(
    `select allocation.* from allocations allocation
     join pools pool on pool.name = allocation.pool
     join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
     where allocation.status = 'release_failed' and allocation.status_since + make_interval(secs =>
       case when allocation.release_tries > coalesce((generation.document #>> '{release,max_retries}')::int, 8) then 3600
       else least(coalesce((generation.document #>> '{release,retry_max_seconds}')::double precision, 900),
         coalesce((generation.document #>> '{release,retry_base_seconds}')::double precision, 30) * power(2, greatest(0, allocation.release_tries - 1))) end) <= $1
     order by allocation.status_since limit $2 for no key update of allocation skip locked`,
    [now, limit],
  );
}

/** Releases that are overdue, or whose operation has ended while the allocation still waits for it. */
export function lockLostReleases(
  tx: Transaction,
  now: Date,
  limit: number,
): Promise<(AllocationRow & { operation_ended: boolean })[]> {
  return tx.query(
    `select allocation.*, operation.finished_at is not null as operation_ended from allocations allocation
     left join operations operation on operation.workflow_id = allocation.workflow_id
     where allocation.status = 'releasing' and (allocation.deadline_at <= $1 or operation.finished_at is not null)
     order by allocation.deadline_at limit $2 for no key update of allocation skip locked`,
    [now, limit],
  );
}
