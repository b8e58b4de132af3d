/** Finds operations by node or allocation, and lists running ones in pages. */
import type { AllocationId, NodeId, WorkflowId } from '../../base/ids.ts';
import { anyOf } from '../pg/by-ids.ts';
import type { Queryable } from '../pg/database.ts';
import type { OperationRow } from './operation-rows.ts';

export async function listOpenOperations(
  db: Queryable,
  allocation_id: AllocationId,
  lock?: 'for no key update',
): Promise<OperationRow[]> {
  return db.query<OperationRow>(
    `select *
     from operations
     where allocation_id = $1
       and status in ('queued', 'running', 'cancelling')
     order by workflow_id
     ${lock ?? ''}`,
    [allocation_id],
  );
}

/** Returns queued and running operations on these nodes, and on all allocations of these nodes. */
export const listOpenOperationsOn = (db: Queryable, nodes: readonly NodeId[]): Promise<OperationRow[]> =>
  db.query<OperationRow>(
    `select operation.*
     from operations operation
     where operation.status in ('queued', 'running')
       and (
         operation.node_id = any($1)
         or operation.allocation_id in (select allocation_id from allocations where node_id = any($1)))
     order by operation.workflow_id`,
    [nodes],
  );

/** Returns the open operations of a kind that have not been asked to stop. */
export const listOpenOfKind = (db: Queryable, kind: string): Promise<{ workflow_id: WorkflowId }[]> =>
  db.query(`select workflow_id from operations where kind = $1 and status in ('queued', 'running')`, [kind]);

/** Returns a page of ids of running operations, in order. */
export async function listRunningOperations(db: Queryable, after: string, limit: number): Promise<WorkflowId[]> {
  const rows = await db.query<{ workflow_id: WorkflowId }>(
    `select workflow_id
     from operations
     where status = 'running'
       and workflow_id > $1
     order by workflow_id
     limit $2`,
    [after, limit],
  );
  return rows.map(({ workflow_id }) => workflow_id);
}

/** Returns the id of a queued or running operation of this kind on the node. */
export async function findQueuedOrRunning(
  db: Queryable,
  node_id: string,
  kind: string,
): Promise<WorkflowId | undefined> {
  const [row] = await db.query<{ workflow_id: WorkflowId }>(
    `select workflow_id
     from operations
     where node_id = $1
       and kind = $2
       and status in ('queued', 'running')
     limit 1`,
    [node_id, kind],
  );
  return row?.workflow_id;
}

/** Returns open teardowns of the nodes themselves. Releases of their allocations do not count. */
const readOpenTeardowns = (db: Queryable, node_ids: readonly string[]): Promise<OperationRow[]> =>
  db.query<OperationRow>(
    `select *
     from operations
     where ${anyOf('node_id', '$1::text[]')}
       and status in ('queued', 'running', 'cancelling')
       and kind in ('node-retire', 'node-reimage', 'residue-delete')
     order by workflow_id`,
    [node_ids],
    { prepared: true },
  );

export const listOpenTeardowns = (db: Queryable, node_id: string): Promise<OperationRow[]> =>
  readOpenTeardowns(db, [node_id]);

/** Returns the oldest open teardown of each node. */
export const findOldestTeardowns = async (
  db: Queryable,
  node_ids: readonly string[],
): Promise<Map<string, WorkflowId>> =>
  new Map(
    // The last entry of a node wins, so the oldest must come last.
    (await readOpenTeardowns(db, node_ids)).reverse().map(({ node_id, workflow_id }) => [node_id ?? '', workflow_id]),
  );

/** Whether any operation on the allocation names a node. */
export async function hasHadMachine(db: Queryable, allocation_id: AllocationId): Promise<boolean> {
  const rows = await db.query(
    `select 1
     from operations
     where allocation_id = $1
       and node_id is not null
     limit 1`,
    [allocation_id],
  );
  return rows.length > 0;
}
