/**
 * What the replica that executes an operation writes about it. Every write is fenced by the replica's epoch: once another
 * replica has taken the operation over, the former one's late writes change nothing.
 */
import type { ReplicaId, WorkflowId } from '../../base/ids.ts';
import type { EvidenceLayer } from '../../contract/evidence/evidence.ts';
import type { EvidenceKind } from '../../contract/evidence/evidence-kinds.ts';
import type { OperationError } from '../../contract/operation.ts';
import type { OperationStatus } from '../../lifecycle/model/states.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Database, Queryable, Transaction } from '../pg/database.ts';
import { settleProgress } from './operation-progress.ts';
import type { OperationRow } from './operation-rows.ts';
import { amendOperation, amendStep, enter, type Page } from './operation-updates.ts';

/** Who executes: a replica in one of its lives. */
export interface Executor {
  replica_id: ReplicaId;
  epoch: string;
}

/** Another replica executes this operation now; whoever hears this stops at once. */
export class ExecutionSuperseded extends Error {
  override name = 'ExecutionSuperseded';
  constructor(workflow_id: string) {
    super(`operation ${workflow_id} is executed by another replica now`);
  }
}

/** A fact about an operation, with all the ids that its row knows. */
export const factOfOperation = (
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

/** An entry of whoever executes the operation; anybody else is told that it is superseded. */
export const updateAsExecutor = <T>(
  db: Database,
  { workflow_id }: { workflow_id: WorkflowId },
  executor: Executor,
  write: (page: Page) => T,
): Promise<T> =>
  enter(db, {
    workflow_id,
    write(page) {
      if (page?.row.epoch !== executor.epoch) throw new ExecutionSuperseded(workflow_id);
      return write(page);
    },
  });

/**
 * Takes the operation for this replica, from whoever had it: the engine lets one execution of a run live at a time. Refused
 * when the attempt is over, or when this replica was declared dead and somebody else goes on in its place.
 */
export const claimExecution = (
  db: Database,
  { workflow_id, attempt }: { workflow_id: WorkflowId; attempt: number },
  { replica_id, epoch }: Executor,
  now: Date,
): Promise<OperationRow> =>
  enter(db, {
    workflow_id,
    needs_life: epoch,
    write(page) {
      if (page?.row.attempt !== attempt || !page.lives.has(epoch)) throw new ExecutionSuperseded(workflow_id);
      const before = page.row;
      const status = before.status === 'queued' ? 'running' : before.status;
      amendOperation(page, { status, replica_id, epoch, started_at: before.started_at ?? now });
      const takenOver = before.epoch !== null && before.replica_id !== replica_id;
      if (before.epoch === null || takenOver) {
        const kind = takenOver ? 'operation.taken_over' : 'operation.started';
        const summary = takenOver ? `${before.kind} goes on, on another replica` : `${before.kind} started`;
        const data = { replica_id, from: before.replica_id };
        page.facts.push(factOfOperation(page.row, 'workflow', kind, summary, data, now));
      }
      return page.row;
    },
  });

/** Locks the operation for its executor; anybody else is told that it is superseded. */
export async function lockAsExecutor(
  tx: Transaction,
  workflow_id: WorkflowId,
  executor: Executor,
): Promise<OperationRow> {
  const [row] = await tx.query<OperationRow>(
    'select * from operations where workflow_id = $1 and epoch = $2 for update',
    [workflow_id, executor.epoch],
    { often: true },
  );
  if (!row) throw new ExecutionSuperseded(workflow_id);
  return row;
}

/** Of these, the ones that are this executor's and that nobody else has locked. */
export const lockManyAsExecutor = (
  tx: Transaction,
  ids: readonly WorkflowId[],
  executor: Executor,
): Promise<OperationRow[]> =>
  tx.query<OperationRow>(
    'select * from operations where workflow_id = any($1) and epoch = $2 for update skip locked',
    [ids, executor.epoch],
    { often: true },
  );

/**
 * Runs a step's writes once, however often the step is repeated: the receipt is kept in the same transaction, and a
 * repeat answers what the first run answered.
 */
export function runOnce<T>(
  db: Database,
  workflow_id: WorkflowId,
  receipt: string,
  executor: Executor,
  now: Date,
  work: (tx: Transaction, operation: OperationRow) => Promise<T>,
): Promise<T> {
  return db.transaction(async (tx) => {
    const row = await lockAsExecutor(tx, workflow_id, executor);
    const [earlier] = await tx.query<{ result: T }>(
      'select result from step_receipts where workflow_id = $1 and receipt = $2',
      [workflow_id, receipt],
      { often: true },
    );
    if (earlier) return earlier.result;
    const result = await work(tx, row);
    await tx.query(
      'insert into step_receipts (workflow_id, receipt, result, at) values ($1, $2, $3, $4)',
      [workflow_id, receipt, JSON.stringify(result ?? null), now],
      { often: true },
    );
    return result;
  });
}

/** Says on the timeline why the operation stood still. */
export const recordStoreWait = (
  db: Database,
  run: { workflow_id: WorkflowId },
  { step, seconds }: { step: string | null; seconds: number },
  executor: Executor,
  now: Date,
): Promise<void> =>
  updateAsExecutor(db, run, executor, (page) => {
    const summary = `waited ${seconds} s for the store`;
    page.facts.push(factOfOperation(page.row, 'store', 'operation.waited_for_store', summary, { step, seconds }, now));
  });

export type Ending = { status: Extract<OperationStatus, 'succeeded' | 'failed' | 'cancelled'>; error?: OperationError };

const endingWords = { succeeded: 'succeeded', failed: 'failed', cancelled: 'was cancelled' } as const;

export const finishOperation = (
  db: Database,
  run: { workflow_id: WorkflowId },
  asked: Ending,
  executor: Executor,
  now: Date,
): Promise<OperationRow> =>
  updateAsExecutor(db, run, executor, (page) => {
    const before = page.row;
    if (before.finished_at) return before;
    // One that was stopped because it took too long did not end by anybody's wish.
    const overdue = asked.status === 'cancelled' ? before.error : null;
    const { status, error }: Ending = overdue ? { status: 'failed', error: overdue } : asked;
    // Where it ends, the bar stays; another attempt goes on from there.
    settleProgress(page, { ...before.progress, updated_at: now.toISOString() }, now);
    amendOperation(page, { status, error: page.redact.value(error ?? null), finished_at: now });
    if (status === 'succeeded')
      for (const step of page.steps) if (step.status === 'pending') amendStep(page, step, { status: 'skipped' });
    const summary = `${before.kind} ${endingWords[status]}${error ? `: ${error.message}` : ''}`;
    page.facts.push(factOfOperation(page.row, 'workflow', `operation.${status}`, summary, error ? { error } : {}, now));
    return page.row;
  });

/** Operations of these kinds and revisions that wait to be started, oldest first; each is locked so that only one replica starts it. */
export function queuedOperations(
  tx: Transaction,
  limit: number,
  among: { kind: string; revision: number }[],
): Promise<OperationRow[]> {
  return tx.query<OperationRow>(
    `select * from operations where status = 'queued' and (kind, revision) in (select * from unnest($2::text[], $3::int[]))
     order by created_at limit $1 for update skip locked`,
    [limit, among.map(({ kind }) => kind), among.map(({ revision }) => revision)],
  );
}

/** The engine has them; from here on they are cancelled by asking the engine. */
export async function markStarted(tx: Transaction, ids: WorkflowId[], executor: Executor, now: Date): Promise<void> {
  await tx.query(
    `update operations set status = 'running', replica_id = $2, epoch = null, started_at = coalesce(started_at, $3) where workflow_id = any($1)`,
    [ids, executor.replica_id, now],
  );
}

const runningBy = (condition: string) =>
  `select workflow_id, attempt from operations where replica_id = $1 and status in ('running', 'cancelling') and ${condition}`;

/** Each along an index of its own: to look through all that run here for each that ends would cost the square of them. */
const runningOn = `${runningBy('node_id = $2')} union ${runningBy('allocation_id = $3')}`;

/** Runs that this replica executes and that concern a node or an allocation, or that wait for room in a pool. */
export function runningHere(
  db: Queryable,
  replica_id: string,
  concern: { node_id?: string | null; allocation_id?: string | null } | 'waiting',
): Promise<{ workflow_id: WorkflowId; attempt: number }[]> {
  if (concern === 'waiting') return db.query(runningBy('node_id is null'), [replica_id]);
  return db.query(runningOn, [replica_id, concern.node_id ?? null, concern.allocation_id ?? null], { often: true });
}

/** Operations whose present step has taken longer than it may. Each is asked to stop, with what went wrong on record. */
export async function stopOverdue(tx: Transaction, now: Date, limit: number): Promise<OperationRow[]> {
  const overdue = await tx.query<OperationRow & { step: string; label: string }>(
    `select operation.*, step.name as step, step.label from steps step join operations operation on operation.workflow_id = step.workflow_id
     where step.status in ('running', 'waiting') and step.deadline_at <= $1 and operation.status = 'running'
     order by step.deadline_at limit $2 for no key update of operation skip locked`,
    [now, limit],
  );
  for (const { step, label, ...row } of overdue) {
    const message = `${label} took longer than it may`;
    const error = { code: 'operation_overdue', owner_layer: 'workflow', message, step };
    await tx.query(`update operations set status = 'cancelling', error = $2 where workflow_id = $1`, [
      row.workflow_id,
      error,
    ]);
    const summary = `${row.kind} is asked to stop: ${message}`;
    await recordEvidence(tx, [factOfOperation(row, 'rule', 'operation.overdue', summary, { step }, now)]);
  }
  return overdue;
}
