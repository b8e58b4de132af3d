/**
 * Stores what a replica does while it executes an operation. The replica's epoch is the fencing
 * token: after another replica has taken over the operation, late writes of the former replica are
 * refused.
 */
import type { ReplicaId, WorkflowId } from '../../base/ids.ts';
import type { EvidenceLayer } from '../../contract/evidence/evidence.ts';
import type { EvidenceKind } from '../../contract/evidence/evidence-kinds.ts';
import type { OperationError } from '../../contract/operation.ts';
import type { OperationStatus } from '../../lifecycle/model/states.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Database, Queryable, Transaction } from '../pg/database.ts';
import { setProgress } from './operation-progress.ts';
import type { OperationRow } from './operation-rows.ts';
import { amendOperation, amendStep, type OperationDraft, updateOperation } from './operation-updates.ts';

/** A running replica. A restarted server gets a new epoch. */
export interface Executor {
  replica_id: ReplicaId;
  epoch: string;
}

/**
 * This replica may not execute the operation (any more): another replica or a later attempt has
 * superseded it, or it was declared dead. The caller must stop at once.
 */
export class ExecutionSuperseded extends Error {
  override name = 'ExecutionSuperseded';
  constructor(workflow_id: string) {
    super(`operation ${workflow_id} is executed by another replica or attempt now`);
  }
}

/** Builds a fact about an operation with all ids of its row. */
export const buildOperationFact = (
  row: OperationRow,
  layer: EvidenceLayer,
  kind: EvidenceKind,
  summary: string,
  data: Record<string, unknown>,
  now: Date,
): Fact => ({
  at: now,
  layer,
  kind,
  summary,
  data,
  node_id: row.node_id,
  node_instance_id: row.node_instance_id,
  correlation_id: row.correlation_id,
  allocation_id: row.allocation_id,
  workflow_id: row.workflow_id,
});

/** Throws `ExecutionSuperseded` unless this executor owns the operation. */
export const updateAsExecutor = <T>(
  db: Database,
  { workflow_id }: { workflow_id: WorkflowId },
  executor: Executor,
  apply: (draft: OperationDraft) => T,
): Promise<T> =>
  updateOperation(db, {
    workflow_id,
    apply(draft) {
      if (draft?.row.epoch !== executor.epoch) throw new ExecutionSuperseded(workflow_id);
      return apply(draft);
    },
  });

/**
 * Makes this replica the executor. A former executor may still run, but its writes are refused from
 * now on. Throws if the attempt is not the current one or this replica was declared dead.
 */
export const becomeExecutor = (
  db: Database,
  { workflow_id, attempt }: { workflow_id: WorkflowId; attempt: number },
  { replica_id, epoch }: Executor,
  now: Date,
): Promise<OperationRow> =>
  updateOperation(db, {
    workflow_id,
    needs_epoch: epoch,
    apply(draft) {
      if (draft?.row.attempt !== attempt || !draft.live_epochs.has(epoch)) throw new ExecutionSuperseded(workflow_id);
      const previous = draft.row;
      const status = previous.status === 'queued' ? 'running' : previous.status;
      amendOperation(draft, { status, replica_id, epoch, started_at: previous.started_at ?? now });
      const isTakenOver = previous.epoch !== null && previous.replica_id !== replica_id;
      if (previous.epoch === null || isTakenOver) {
        const kind = isTakenOver ? 'operation.taken_over' : 'operation.started';
        const summary = isTakenOver ? `${previous.kind} continues on another replica` : `${previous.kind} started`;
        const data = { replica_id, from: previous.replica_id };
        draft.facts.push(buildOperationFact(draft.row, 'workflow', kind, summary, data, now));
      }
      return draft.row;
    },
  });

/** Locks the row. Throws `ExecutionSuperseded` unless this executor owns the operation. */
export async function lockAsExecutor(
  tx: Transaction,
  workflow_id: WorkflowId,
  executor: Executor,
): Promise<OperationRow> {
  const [row] = await tx.query<OperationRow>(
    `select *
     from operations
     where workflow_id = $1
       and epoch = $2
     for update`,
    [workflow_id, executor.epoch],
    { prepared: true },
  );
  if (!row) throw new ExecutionSuperseded(workflow_id);
  return row;
}

/** Locks the given operations that this executor owns, except those locked by others. */
export const lockManyAsExecutor = (
  tx: Transaction,
  ids: readonly WorkflowId[],
  executor: Executor,
): Promise<OperationRow[]> =>
  tx.query<OperationRow>(
    `select *
     from operations
     where workflow_id = any($1)
       and epoch = $2
     for update skip locked`,
    [ids, executor.epoch],
    { prepared: true },
  );

/**
 * Makes the writes of a step idempotent. The result is stored under a key of the operation in the
 * same transaction. A repeated call with the same key returns that result without doing the work
 * again.
 */
export function runOnce<T>(
  db: Database,
  workflow_id: WorkflowId,
  key: string,
  executor: Executor,
  now: Date,
  work: (tx: Transaction, operation: OperationRow) => Promise<T>,
): Promise<T> {
  return db.transaction(async (tx) => {
    const row = await lockAsExecutor(tx, workflow_id, executor);
    const [earlier] = await tx.query<{ result: T }>(
      `select result
       from step_receipts
       where workflow_id = $1
         and receipt = $2`,
      [workflow_id, key],
      { prepared: true },
    );
    if (earlier) return earlier.result;
    const result = await work(tx, row);
    await tx.query(
      `insert into step_receipts (workflow_id, receipt, result, at)
       values ($1, $2, $3, $4)`,
      [workflow_id, key, JSON.stringify(result ?? null), now],
      { prepared: true },
    );
    return result;
  });
}

/** Records that the operation waited for the store. */
export const recordStoreWait = (
  db: Database,
  run: { workflow_id: WorkflowId },
  { step, seconds }: { step: string | null; seconds: number },
  executor: Executor,
  now: Date,
): Promise<void> =>
  updateAsExecutor(db, run, executor, (draft) => {
    const summary = `waited ${seconds} s for the store`;
    draft.facts.push(
      buildOperationFact(draft.row, 'store', 'operation.waited_for_store', summary, { step, seconds }, now),
    );
  });

export type Ending = { status: Extract<OperationStatus, 'succeeded' | 'failed' | 'cancelled'>; error?: OperationError };

/**
 * Ends open steps with their operation; otherwise their durations would keep growing. The error
 * stays on the operation.
 */
function endOpenSteps(draft: OperationDraft, status: Ending['status'], now: Date): void {
  for (const step of draft.steps)
    if (status === 'succeeded' && step.status === 'pending') amendStep(draft, step, { status: 'skipped' });
    else if (step.status === 'running' || step.status === 'waiting')
      amendStep(draft, step, { status: 'failed', finished_at: now, retry_at: null });
}

const endingWords = { succeeded: 'succeeded', failed: 'failed', cancelled: 'was cancelled' } as const;

export const finishOperation = (
  db: Database,
  run: { workflow_id: WorkflowId },
  ending: Ending,
  executor: Executor,
  now: Date,
): Promise<OperationRow> =>
  updateAsExecutor(db, run, executor, (draft) => {
    const { row: previous } = draft;
    if (previous.finished_at) return previous;
    // `stopOverdue` has stored this error of an overdue operation, which counts as failed.
    const overdue = ending.status === 'cancelled' ? previous.error : null;
    const { status, error }: Ending = overdue ? { status: 'failed', error: overdue } : ending;
    // Store the percentage, because another attempt continues from it.
    setProgress(draft, { ...previous.progress, updated_at: now.toISOString() }, now);
    amendOperation(draft, { status, error: draft.redact.value(error ?? null), finished_at: now });
    endOpenSteps(draft, status, now);
    const summary = `${previous.kind} ${endingWords[status]}${error ? `: ${error.message}` : ''}`;
    draft.facts.push(
      buildOperationFact(draft.row, 'workflow', `operation.${status}`, summary, error ? { error } : {}, now),
    );
    return draft.row;
  });

/** Locks queued operations, oldest first, so that only one replica starts each. */
export function lockQueuedOperations(
  tx: Transaction,
  limit: number,
  kinds: { kind: string; revision: number }[],
): Promise<OperationRow[]> {
  return tx.query<OperationRow>(
    `select *
     from operations
     where status = 'queued'
       and (kind, revision) in (select * from unnest($2::text[], $3::int[]))
     order by created_at
     limit $1
     for update skip locked`,
    [limit, kinds.map(({ kind }) => kind), kinds.map(({ revision }) => revision)],
  );
}

/** Marks operations as handed to the engine. From then on, only the engine can cancel them. */
export async function markStarted(tx: Transaction, ids: WorkflowId[], executor: Executor, now: Date): Promise<void> {
  await tx.query(
    `update operations set
       status = 'running',
       replica_id = $2,
       epoch = null,
       started_at = coalesce(started_at, $3)
     where workflow_id = any($1)`,
    [ids, executor.replica_id, now],
  );
}

const runningSql = (condition: string) =>
  `select workflow_id, attempt
   from operations
   where replica_id = $1
     and status in ('running', 'cancelling')
     and ${condition}`;

/**
 * A union, so that each condition uses the index of its column. This runs for every fact that an
 * operation may wait for, so reading all running operations would cost facts × operations.
 */
const runningOnSubjectSql = `${runningSql('node_id = $2')} union ${runningSql('allocation_id = $3')}`;

/**
 * Returns the operations that this replica runs on a node or an allocation, or those that still
 * wait for a node.
 */
export function findRunningOperations(
  db: Queryable,
  replica_id: string,
  subject: { node_id?: string | null; allocation_id?: string | null } | 'waiting',
): Promise<{ workflow_id: WorkflowId; attempt: number }[]> {
  if (subject === 'waiting') return db.query(runningSql('node_id is null'), [replica_id]);
  return db.query(runningOnSubjectSql, [replica_id, subject.node_id ?? null, subject.allocation_id ?? null], {
    prepared: true,
  });
}

/** Returns the unfinished operations that were asked to stop, of these replicas or of all. */
export const listCancelling = (
  db: Queryable,
  replica_ids?: readonly string[],
): Promise<{ workflow_id: WorkflowId; attempt: number }[]> =>
  db.query(
    `select workflow_id, attempt
     from operations
     where status = 'cancelling'
       and ($1::text[] is null or replica_id = any($1))`,
    [replica_ids ?? null],
  );

/** Requests the cancellation of operations whose present step is past its deadline. */
export async function stopOverdue(tx: Transaction, now: Date, limit: number): Promise<OperationRow[]> {
  const overdue = await tx.query<OperationRow & { step: string; label: string }>(
    `select operation.*, step.name as step, step.label
     from steps step
     join operations operation on operation.workflow_id = step.workflow_id
     where step.status in ('running', 'waiting')
       and step.deadline_at <= $1
       and operation.status = 'running'
     order by step.deadline_at
     limit $2
     for no key update of operation skip locked`,
    [now, limit],
  );
  for (const { step, label, ...row } of overdue) {
    const message = `${label} took longer than allowed`;
    const error = { code: 'operation_overdue', owner_layer: 'workflow', message, step };
    await tx.query(
      `update operations set status = 'cancelling', error = $2
       where workflow_id = $1`,
      [row.workflow_id, error],
    );
    const summary = `${row.kind} was asked to stop: ${message}`;
    await recordEvidence(tx, [buildOperationFact(row, 'rule', 'operation.overdue', summary, { step }, now)]);
  }
  return overdue;
}
