/** Queries about operations, mostly open ones: by node, by allocation, or running ones in pages. */
import type { AllocationId, WorkflowId } from '../../base/ids.ts';
import { anyOf } from '../pg/by-ids.ts';
import type { Queryable } from '../pg/database.ts';
import type { OperationRow } from './operation-rows.ts';

export async function openOperationsOf(
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

/** Returns a page of running operations in the order of their ids. */
export async function runningOperations(db: Queryable, after: string, limit: number): Promise<WorkflowId[]> {
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

/** Returns a queued or running operation of this kind on the node. */
export async function queuedOrRunningOnNode(
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
const openTeardowns = (db: Queryable, node_ids: readonly string[]): Promise<OperationRow[]> =>
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

export const openTeardownsOf = (db: Queryable, node_id: string): Promise<OperationRow[]> =>
  openTeardowns(db, [node_id]);

/** Returns the oldest open teardown of each node. */
export const teardownsUnderWay = async (db: Queryable, node_ids: readonly string[]): Promise<Map<string, WorkflowId>> =>
  new Map(
    (await openTeardowns(db, node_ids)).reverse().map(({ node_id, workflow_id }) => [node_id ?? '', workflow_id]),
  );

/** Whether any operation on an allocation ever had a machine to work on. */
export async function everHadMachine(db: Queryable, allocation_id: AllocationId): Promise<boolean> {
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
