/** Reads, lists, cancels and requeues operations, and binds them to nodes. */
import { iso } from '../../base/clock.ts';
import type { NodeId, NodeInstanceId, WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { Operation, Step } from '../../contract/operation.ts';
import type { Page } from '../../contract/primitives.ts';
import { expectedOf } from '../../lifecycle/progress/expectation.ts';
import { phaseOf } from '../../lifecycle/progress/progress.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { type Bind, parameters, readWalk, type Walk } from '../pg/walk.ts';
import { andAll, ownRows } from '../visibility.ts';
import { progressWire } from './operation-progress.ts';
import type { OperationRow, StepRow } from './operation-rows.ts';

/** The pool's median. An operation without a pool has no samples and uses the plan's estimate. */
const usualSeconds = (step: StepRow, pool: string | null) =>
  expectedOf(step.expected)?.p50_seconds ?? (pool === null ? step.usual_seconds : null);

const isOpen = ({ status }: StepRow) => status === 'running' || status === 'waiting';

/** Older versions left the open step of an operation as it was when the operation ended. */
function endWithOperation(step: StepRow, { finished_at }: OperationRow): StepRow {
  if (finished_at === null || !isOpen(step)) return step;
  return { ...step, status: 'failed', finished_at: step.finished_at ?? finished_at, retry_at: null };
}

const wasCancelled = ({ status, error }: StepRow, operation: OperationRow) =>
  operation.status === 'cancelled' && status === 'failed' && error === null;

function stepWire(stored: StepRow, operation: OperationRow): Step {
  const step = endWithOperation(stored, operation);
  return {
    step: step.ordinal,
    name: phaseOf(step.name),
    label: step.label,
    status: wasCancelled(step, operation) ? 'cancelled' : step.status,
    tries: step.tries,
    usual_seconds: usualSeconds(step, operation.pool),
    started_at: iso(step.started_at),
    finished_at: iso(step.finished_at),
    retry_at: iso(step.retry_at),
    error: step.error,
  };
}

async function toWire(db: Queryable, rows: OperationRow[], now: Date): Promise<Operation[]> {
  if (rows.length === 0) return [];
  const steps = await db.query<StepRow>(
    `select *
     from steps
     where workflow_id = any($1)
     order by workflow_id, ordinal`,
    [rows.map((row) => row.workflow_id)],
    { prepared: true },
  );
  const stepsByOperation = Map.groupBy(steps, (step) => step.workflow_id);
  return rows.map((row) => {
    const ownSteps = stepsByOperation.get(row.workflow_id) ?? [];
    return {
      workflow_id: row.workflow_id,
      kind: row.kind,
      status: row.status,
      attempt: row.attempt,
      node_id: row.node_id,
      node_instance_id: row.node_instance_id,
      allocation_id: row.allocation_id,
      correlation_id: row.correlation_id,
      replica_id: row.replica_id,
      actor: row.actor,
      progress: progressWire(row, ownSteps, now),
      steps: ownSteps.map((step) => stepWire(step, row)),
      error: row.error,
      created_at: row.created_at.toISOString(),
      started_at: iso(row.started_at),
      finished_at: iso(row.finished_at),
    };
  });
}

export async function readOperations(
  db: Queryable,
  ids: readonly string[],
  visibility: Visibility,
  now: Date,
): Promise<Operation[]> {
  if (ids.length === 0) return [];
  const { values, bind } = parameters();
  const rows = await db.query<OperationRow>(
    `select *
     from operations
     where workflow_id = any(${bind(ids)})
       ${andAll(ownRows(visibility, 'operations', bind))}`,
    values,
    { prepared: true },
  );
  return toWire(db, rows, now);
}

export async function readOperation(
  db: Queryable,
  id: string,
  visibility: Visibility,
  now: Date,
): Promise<Operation | undefined> {
  return (await readOperations(db, [id], visibility, now))[0];
}

export async function readOperationRow(
  db: Queryable,
  id: string,
  lock?: 'for update',
): Promise<OperationRow | undefined> {
  return (
    await db.query<OperationRow>(
      `select *
       from operations
       where workflow_id = $1
       ${lock ?? ''}`,
      [id],
      { prepared: true },
    )
  )[0];
}

export const readStepRows = (db: Queryable, workflow_id: WorkflowId): Promise<StepRow[]> =>
  db.query<StepRow>(
    `select *
     from steps
     where workflow_id = $1
     order by ordinal`,
    [workflow_id],
    { prepared: true },
  );

export interface OperationFilter {
  kind?: string;
  status?: string;
  node_id?: string;
  allocation_id?: string;
  visibility: Visibility;
  after?: string;
  limit: number;
}

interface Condition {
  /** Whether there is an index on the column and `workflow_id`. */
  isIndexed: boolean;
  sql(bind: Bind): string[];
}

/** Returns the conditions. `listOperations` walks the index of the first one that has an index. */
function conditionsOf({ visibility, ...filter }: OperationFilter): Condition[] {
  const column = (name: 'node_id' | 'allocation_id' | 'status' | 'kind', isIndexed: boolean): Condition[] =>
    filter[name] === undefined ? [] : [{ isIndexed, sql: (bind) => [`operations.${name} = ${bind(filter[name])}`] }];
  const own: Condition = { isIndexed: true, sql: (bind) => ownRows(visibility, 'operations', bind) };
  return [
    ...column('node_id', true),
    ...column('allocation_id', true),
    ...(visibility.kind === 'fleet' ? [] : [own]),
    ...column('status', true),
    ...column('kind', false),
  ];
}

export async function listOperations(db: Queryable, filter: OperationFilter, now: Date): Promise<Page<Operation>> {
  const conditions = conditionsOf(filter);
  const indexCondition = conditions.find(({ isIndexed }) => isIndexed);
  const { values, bind } = parameters();
  const walked = indexCondition?.sql(bind) ?? [];
  if (filter.after !== undefined) walked.push(`workflow_id < ${bind(filter.after)}`);
  const walkCondition = walked.length === 0 ? 'true' : walked.join(' and ');
  const walk: Walk = {
    ...{ table: 'operations', key: 'workflow_id', values },
    rows: (limit) =>
      `select *
       from operations
       where ${walkCondition}
       order by workflow_id desc
       limit ${limit}`,
  };
  const rest = parameters(values.length);
  const where = conditions.filter((condition) => condition !== indexCondition).flatMap(({ sql }) => sql(rest.bind));
  const request = { where, values: rest.values, direction: 'desc', limit: filter.limit } as const;
  const page = await readWalk<OperationRow>(db, walk, request, (from) => `select * from ${from}`);
  return { items: await toWire(db, page.rows, now), next_cursor: page.next_cursor };
}

type NodeBinding = { node_id: NodeId; node_instance_id: NodeInstanceId | null };

/** Sets the node of each operation, for operations that were queued before their node was known. */
export async function bindOperationsToNodes(
  tx: Transaction,
  bindings: { workflow_id: WorkflowId; node: NodeBinding }[],
): Promise<void> {
  if (bindings.length === 0) return;
  await tx.query(
    `update operations set
       node_id = bound.node_id,
       node_instance_id = bound.node_instance_id
     from unnest($1::text[], $2::text[], $3::text[]) as bound(workflow_id, node_id, node_instance_id)
     where operations.workflow_id = bound.workflow_id
       -- Lets the planner use the index.
       and operations.workflow_id = any($1)`,
    [
      bindings.map(({ workflow_id }) => workflow_id),
      bindings.map(({ node }) => node.node_id),
      bindings.map(({ node }) => node.node_instance_id),
    ],
    { prepared: true },
  );
}

/** Sets or clears the node of an operation. */
export async function bindOperationToNode(
  tx: Transaction,
  workflow_id: WorkflowId,
  node: NodeBinding | null,
): Promise<void> {
  await tx.query(
    `update operations set node_id = $2, node_instance_id = $3
     where workflow_id = $1`,
    [workflow_id, node?.node_id ?? null, node?.node_instance_id ?? null],
  );
}

/**
 * Requests cancellation. A queued operation is cancelled at once. Returns the updated row, or
 * undefined if the operation has ended or is being cancelled already.
 */
export async function markCancelling(
  tx: Transaction,
  id: string,
  now: Date,
  actor: Actor | null,
): Promise<OperationRow | undefined> {
  const [row] = await tx.query<OperationRow>(
    `update operations set
       status = case when status = 'queued' then 'cancelled' else 'cancelling' end,
       finished_at = case when status = 'queued' then $2::timestamptz end
     where workflow_id = $1
       and status in ('queued', 'running')
     returning *`,
    [id, now],
  );
  if (!row) return undefined;
  await recordEvidence(tx, [
    {
      at: now,
      layer: actor ? 'operator' : 'workflow',
      kind: `operation.${row.status}`,
      summary:
        row.status === 'cancelled' ? `${row.kind} was cancelled before it started` : `${row.kind} was asked to stop`,
      actor,
      node_id: row.node_id,
      node_instance_id: row.node_instance_id,
      correlation_id: row.correlation_id,
      allocation_id: row.allocation_id,
      workflow_id: row.workflow_id,
    },
  ]);
  return row;
}

/** Queues the next attempt of a failed operation. Finished steps stay finished. */
export async function requeue(
  tx: Transaction,
  id: string,
  now: Date,
  actor: Actor | null,
): Promise<OperationRow | undefined> {
  const [row] = await tx.query<OperationRow>(
    `update operations set
       status = 'queued',
       attempt = attempt + 1,
       error = null,
       finished_at = null
     where workflow_id = $1
       and status = 'failed'
     returning *`,
    [id],
  );
  if (!row) return undefined;
  await tx.query(
    // A repeated step restarts its clock, because the time between two attempts is not work.
    `update steps set
       status = 'pending',
       error = null,
       started_at = null,
       finished_at = null,
       retry_at = null
     where workflow_id = $1
       and status in ('failed', 'running', 'waiting')`,
    [id],
  );
  await recordEvidence(tx, [
    {
      at: now,
      layer: actor ? 'operator' : 'rule',
      kind: 'operation.queued',
      summary: `${row.kind} is retried (attempt ${row.attempt})`,
      data: { attempt: row.attempt },
      actor,
      node_id: row.node_id,
      node_instance_id: row.node_instance_id,
      correlation_id: row.correlation_id,
      allocation_id: row.allocation_id,
      workflow_id: row.workflow_id,
    },
  ]);
  return row;
}
