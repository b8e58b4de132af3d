/** Reads allocations. Their statuses are written in store/transitions only. */
import { iso } from '../../base/clock.ts';
import type { AllocationId, CorrelationId, NodeId, WorkflowId } from '../../base/ids.ts';
import type { Allocation } from '../../contract/allocation.ts';
import type { OwnerLayer } from '../../contract/errors/problem.ts';
import type { BudgetSource, Verdict } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import type { Labels, Page } from '../../contract/primitives.ts';
import type { Holder } from '../../contract/supervision/explanation.ts';
import { type AllocationStatus, allocationStatuses, type NodeStatus } from '../../lifecycle/model/states.ts';
import { type Visibility, wholeFleet } from '../../lifecycle/visibility.ts';
import { readOperations } from '../operations/operations.ts';
import { anyOf } from '../pg/by-ids.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { type Bind, parameters, readWalk, type Walk, walkPoolsAndStatuses } from '../pg/walk.ts';
import { andAll, ownRows } from '../visibility.ts';
import { generationOfAllocation, releaseRetryAt } from './release-retry-at.ts';

export interface AllocationRow {
  allocation_id: AllocationId;
  pool: string;
  node_id: NodeId | null;
  tenant: string;
  name: string | null;
  status: AllocationStatus;
  status_since: Date;
  reason: string | null;
  owner_layer: OwnerLayer | null;
  workflow_id: WorkflowId | null;
  correlation_id: CorrelationId;
  deadline_at: Date | null;
  budget_seconds: number | null;
  budget_source: BudgetSource | null;
  provision_timeout_seconds: number | null;
  release_tries: number;
  verdict: Verdict | null;
  labels: Labels;
  created_at: Date;
  active_at: Date | null;
  released_at: Date | null;
}

interface JoinedRow extends AllocationRow {
  endpoint: string | null;
  node_status: NodeStatus | null;
  retry_at: Date | null;
}

const selectJoined = (from: string) => `
  select allocation.*, node.endpoint, node.status as node_status, ${releaseRetryAt} as retry_at
  from ${from}
  left join nodes node on node.node_id = allocation.node_id
  join ${generationOfAllocation}`;

const joinedAllocations = selectJoined('allocations allocation');

async function toWire(db: Queryable, rows: JoinedRow[], now: Date): Promise<Allocation[]> {
  const operations = await readOperations(
    db,
    rows.flatMap((row) => row.workflow_id ?? []),
    wholeFleet,
    now,
  );
  const operationsById = new Map(operations.map((operation) => [operation.workflow_id, operation]));
  return rows.map((row) => wireOf(row, row.workflow_id ? operationsById.get(row.workflow_id) : undefined, now));
}

/**
 * Whether a retry is running. The operation that failed may still be unfinished, but it was created
 * before the failure.
 */
const isRetryRunning = ({ status_since }: JoinedRow, operation: Operation | undefined) =>
  operation !== undefined &&
  operation.finished_at === null &&
  Date.parse(operation.created_at) >= status_since.getTime();

/**
 * Whether a failed allocation can be rescued: its node is still failed, no retry is running, and
 * the deadline has not passed.
 */
const isRescuable = (row: JoinedRow, operation: Operation | undefined, now: Date) =>
  row.node_status === 'failed' && !isRetryRunning(row, operation) && row.deadline_at !== null && row.deadline_at > now;

function wireOf(row: JoinedRow, operation: Operation | undefined, now: Date): Allocation {
  const isDeadlineVoid = row.status === 'failed' && !isRescuable(row, operation, now);
  return {
    allocation_id: row.allocation_id,
    pool: row.pool,
    node_id: row.node_id,
    tenant: row.tenant,
    name: row.name,
    status: row.status,
    status_since: row.status_since.toISOString(),
    reason: row.reason,
    owner_layer: row.owner_layer,
    workflow_id: row.workflow_id,
    correlation_id: row.correlation_id,
    progress: operation?.progress ?? null,
    endpoint: row.status === 'active' ? row.endpoint : null,
    deadline_at: isDeadlineVoid ? null : iso(row.deadline_at),
    budget_seconds: isDeadlineVoid ? null : row.budget_seconds,
    budget_source: isDeadlineVoid ? null : row.budget_source,
    release_tries: row.release_tries,
    retry_at: iso(row.retry_at),
    verdict: row.verdict,
    labels: row.labels,
    created_at: row.created_at.toISOString(),
    active_at: iso(row.active_at),
    released_at: iso(row.released_at),
  };
}

export async function readAllocations(
  db: Queryable,
  ids: readonly string[],
  visibility: Visibility,
  now: Date,
): Promise<Allocation[]> {
  const { values, bind } = parameters();
  const rows = await db.query<JoinedRow>(
    `${joinedAllocations}
     where allocation.allocation_id = any(${bind(ids)}) ${andAll(ownRows(visibility, 'allocation', bind))}`,
    values,
  );
  return toWire(db, rows, now);
}

/** Reads one allocation. Prepared, because planning takes longer than running. */
function joinedRows(db: Queryable, id: string, visibility: Visibility): Promise<JoinedRow[]> {
  const { values, bind } = parameters();
  return db.query<JoinedRow>(
    `${joinedAllocations}
     where allocation.allocation_id = ${bind(id)} ${andAll(ownRows(visibility, 'allocation', bind))}`,
    values,
    { prepared: true },
  );
}

export async function readAllocation(
  db: Queryable,
  id: string,
  visibility: Visibility,
  now: Date,
): Promise<Allocation | undefined> {
  return (await toWire(db, await joinedRows(db, id, visibility), now))[0];
}

/** Reads what the explanation of a node shows of its holder. Does not read the operation. */
export async function readHolder(db: Queryable, id: string, visibility: Visibility): Promise<Holder | undefined> {
  const [row] = await joinedRows(db, id, visibility);
  return (
    row && {
      allocation_id: row.allocation_id,
      name: row.name,
      status: row.status,
      status_since: row.status_since.toISOString(),
      reason: row.reason,
      owner_layer: row.owner_layer,
      release_tries: row.release_tries,
      retry_at: iso(row.retry_at),
    }
  );
}

export async function allocationRow(db: Queryable, id: string): Promise<AllocationRow | undefined> {
  return (
    await db.query<AllocationRow>('select * from allocations where allocation_id = $1', [id], { prepared: true })
  )[0];
}

export async function readAllocationStatuses(
  db: Queryable,
  ids: readonly string[],
): Promise<Map<string, AllocationStatus>> {
  if (ids.length === 0) return new Map();
  const rows = await db.query<Pick<AllocationRow, 'allocation_id' | 'status'>>(
    `select allocation_id, status from allocations where ${anyOf('allocation_id', '$1::text[]')}`,
    [ids],
    { prepared: true },
  );
  return new Map(rows.map(({ allocation_id, status }) => [allocation_id, status]));
}

export interface AllocationFilter {
  pool?: string;
  status?: string;
  visibility: Visibility;
  /** `key=value` */
  label?: string;
  after?: string;
  limit: number;
}

/**
 * Chooses the index to walk: for a tenant the one by tenant, with a pool the one by pool and
 * status, else the one by status or by id. `applies` lists the filters that the walk itself
 * applies.
 */
function chooseWalk(filter: AllocationFilter, bind: Bind): Pick<Walk, 'rows'> & { applies: string[] } {
  const after = filter.after === undefined ? '' : `and allocation_id < ${bind(filter.after)}`;
  const rows = (condition: string) => (maxRows: number) =>
    `
    select * from allocations
    where ${condition} ${after}
    order by allocation_id desc
    limit ${maxRows}`;
  if (filter.visibility.kind !== 'fleet')
    return { applies: [], rows: rows(ownRows(filter.visibility, 'allocations', bind).join(' and ')) };
  if (filter.pool === undefined) {
    const hasStatus = filter.status !== undefined;
    return { applies: ['status'], rows: rows(hasStatus ? `status = ${bind(filter.status)}` : 'true') };
  }
  const statuses = filter.status === undefined ? Object.keys(allocationStatuses) : [filter.status];
  return {
    applies: ['pool', 'status'],
    rows: walkPoolsAndStatuses({
      ...{ table: 'allocations', key: 'allocation_id', after, direction: 'desc' },
      pools: `${bind([filter.pool])}::text[]`,
      statuses: `${bind(statuses)}::text[]`,
    }),
  };
}

export async function listAllocations(db: Queryable, filter: AllocationFilter, now: Date): Promise<Page<Allocation>> {
  const { values, bind } = parameters();
  const { rows, applies } = chooseWalk(filter, bind);
  const walk: Walk = { table: 'allocation', key: 'allocation_id', rows, values };
  const more = parameters(values.length);
  const where: string[] = [];
  for (const column of ['pool', 'status'] as const)
    if (filter[column] !== undefined && !applies.includes(column))
      where.push(`allocation.${column} = ${more.bind(filter[column])}`);
  if (filter.label) {
    const separator = filter.label.indexOf('=');
    const [name, value] = [more.bind(filter.label.slice(0, separator)), more.bind(filter.label.slice(separator + 1))];
    where.push(`allocation.labels ->> ${name} = ${value}`);
  }
  const wanted = { where, values: more.values, direction: 'desc', limit: filter.limit } as const;
  const page = await readWalk<JoinedRow>(db, walk, wanted, selectJoined);
  return { items: await toWire(db, page.rows, now), next_cursor: page.next_cursor };
}

/**
 * SQL for the allocation that a node belongs to: its holder, else its last allocation if that one
 * failed. Reports and logs of the node are stored under this allocation, so only its tenant reads
 * them.
 */
export const holderOf = (node_id: string): string => `(
  select case when last.status <> 'released' then last.allocation_id end
  from allocations last
  where last.node_id = ${node_id}
  order by last.status in ('provisioning', 'active', 'releasing', 'release_failed') desc,
    last.status_since desc
  limit 1
)`;

export async function findHolders(db: Queryable, nodes: NodeId[]): Promise<Map<NodeId, AllocationId>> {
  // A single id is not passed as a list: see by-ids.ts.
  const isOne = nodes.length === 1;
  const wanted = isOne ? '(select $1::text as node_id) as wanted' : 'unnest($1::text[]) as wanted(node_id)';
  const rows = await db.query<{ node_id: NodeId; allocation_id: AllocationId | null }>(
    `select wanted.node_id, ${holderOf('wanted.node_id')} as allocation_id from ${wanted}`,
    [isOne ? nodes[0] : nodes],
    { prepared: true },
  );
  return new Map(rows.flatMap((row) => (row.allocation_id ? [[row.node_id, row.allocation_id] as const] : [])));
}

/** Returns the allocations on these nodes that are not released. */
export const listUnreleasedOn = (
  db: Queryable,
  nodes: readonly NodeId[],
): Promise<Pick<AllocationRow, 'allocation_id' | 'node_id' | 'status'>[]> =>
  db.query(
    `select allocation_id, node_id, status
     from allocations
     where node_id = any($1)
       and status <> 'released'
     order by allocation_id`,
    [nodes],
  );

/** Whether the node has served an allocation other than this one. */
export async function hasServedAnother(db: Queryable, node_id: NodeId, allocation_id: string): Promise<boolean> {
  const rows = await db.query(
    `select 1 from allocations
     where node_id = $1
       and allocation_id <> $2
       and active_at is not null
     limit 1`,
    [node_id, allocation_id],
  );
  return rows.length > 0;
}

export async function isHeldByAnother(db: Queryable, node_id: NodeId, allocation_id: AllocationId): Promise<boolean> {
  const rows = await db.query(
    `select 1 from allocations
     where node_id = $1
       and allocation_id <> $2
       and status in ('provisioning', 'active', 'releasing', 'release_failed')`,
    [node_id, allocation_id],
  );
  return rows.length > 0;
}

/** Returns the rows in no particular order. */
export const allocationRows = (db: Queryable, ids: readonly AllocationId[]): Promise<AllocationRow[]> =>
  db.query<AllocationRow>('select * from allocations where allocation_id = any($1)', [ids], { prepared: true });

/**
 * Counts, for each of these allocations, the earlier allocations of the pool that wait for a
 * machine. Retried allocations wait too, except in a pool that launches machines: there a retry
 * uses the failed node again.
 */
export async function countWaitingBefore(
  db: Queryable,
  pool: string,
  ids: readonly AllocationId[],
  canLaunch: boolean,
): Promise<Map<AllocationId, number>> {
  const rows = await db.query<{ allocation_id: AllocationId; ahead: number }>(
    `with waiting as (
       select allocation_id from allocations
       where pool = $1
         and status = 'requested'
       union all
       select retried.allocation_id
       from operations operation
       join allocations retried using (allocation_id)
       where operation.status in ('queued', 'running')
         and (operation.params ->> 'retry') = 'true'
         and retried.pool = $1
         and retried.status = 'failed'
         and not ($3 and exists (
           select 1 from nodes
           where nodes.node_id = retried.node_id
             and nodes.status = 'failed'
         ))
     ),
     -- The wanted allocations need not be waiting themselves.
     candidates as (
       select allocation_id, 1 as waits, false as is_wanted from waiting
       union all
       select allocation_id, 0, true from unnest($2::text[]) as wanted(allocation_id)
     ),
     queue as (
       select allocation_id, sum(waits) over (order by allocation_id) - waits as ahead, is_wanted
       from (
         select allocation_id, sum(waits) as waits, bool_or(is_wanted) as is_wanted
         from candidates
         group by allocation_id
       ) each
     )
     select allocation_id, ahead::int as ahead
     from queue
     where is_wanted`,
    [pool, ids, canLaunch],
  );
  return new Map(rows.map(({ allocation_id, ahead }) => [allocation_id, ahead]));
}

export async function lockAllocation(tx: Transaction, id: string): Promise<AllocationRow | undefined> {
  return (
    await tx.query<AllocationRow>('select * from allocations where allocation_id = $1 for no key update', [id], {
      prepared: true,
    })
  )[0];
}
