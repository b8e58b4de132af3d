/**
 * Writes updates of operations by the replica that executes them. An update changes one operation
 * in memory. Updates that arrive while a batch is written form the next batch, and a batch needs
 * the same number of statements as a single update.
 */
import { createBatcher } from '../../base/batching/batch.ts';
import { bisect, unwrapSettled } from '../../base/batching/bisect.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { Redactor } from '../../base/redaction/redact.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { type Database, StoreUnavailable, type Transaction } from '../pg/database.ts';
import type { OperationRow, StepRow } from './operation-rows.ts';
import { type StepSample, saveStepSamples } from './step-samples.ts';

export type DraftStep = StepRow & { within_seconds: number | null; deadline_at: Date | null };

/**
 * An operation under its row lock. Rows and steps are replaced and never mutated, so that comparing
 * references finds the changed ones.
 */
export interface OperationDraft {
  row: OperationRow;
  steps: DraftStep[];
  facts: Fact[];
  samples: StepSample[];
  readonly redact: Redactor;
  /** The epochs in `needs_epoch` of this batch whose replica has not ended. */
  readonly live_epochs: ReadonlySet<string>;
}

export interface OperationUpdate<T> {
  workflow_id: WorkflowId;
  /** The epoch of a replica that must not be declared dead before this update is committed. */
  needs_epoch?: string;
  /**
   * Must change only the draft, because it runs again when the transaction is retried. If it
   * throws, only this update is rejected. The draft is undefined if the operation does not exist.
   */
  apply(draft: OperationDraft | undefined): T;
}

/** Each caller awaits its own answer, so that an update that waits for a lock delays no other. */
type Answer = () => Promise<unknown>;
type AnyUpdate = OperationUpdate<unknown>;

/** Two batches may be written at once, so that a slow one does not block all others. */
const limits = { max_keys: 200, max_concurrent: 2 };

export function amendStep(draft: OperationDraft, step: DraftStep, set: Partial<DraftStep>): void {
  draft.steps = draft.steps.map((each) => (each.ordinal === step.ordinal ? { ...each, ...set } : each));
}

export function amendOperation(draft: OperationDraft, set: Partial<OperationRow>): void {
  draft.row = { ...draft.row, ...set };
}

/** To avoid deadlocks, an update waits for a lock only if it is alone in its transaction. */
type LockMode = 'skip locked' | 'wait';

const lockOperations = (tx: Transaction, ids: WorkflowId[], mode: LockMode): Promise<OperationRow[]> =>
  tx.query<OperationRow>(
    `select *
     from operations
     where workflow_id = any($1)
     for update ${mode === 'wait' ? '' : mode}`,
    [ids],
    { prepared: true },
  );

/** Share-locks the replicas, so that none is declared dead before the commit. */
async function lockEpochs(tx: Transaction, updates: readonly AnyUpdate[]): Promise<Set<string>> {
  const needed = new Set(updates.flatMap(({ needs_epoch }) => needs_epoch ?? []));
  if (needed.size === 0) return needed;
  const live = await tx.query<{ epoch: string }>(
    `select epoch
     from replicas
     where epoch = any($1)
       and ended_at is null
     for share`,
    [[...needed]],
    { prepared: true },
  );
  return new Set(live.map(({ epoch }) => epoch));
}

async function readDrafts(
  tx: Transaction,
  updates: readonly AnyUpdate[],
  mode: LockMode,
): Promise<Map<WorkflowId, OperationDraft>> {
  const ids = [...new Set(updates.map(({ workflow_id }) => workflow_id))];
  const rows = await lockOperations(tx, ids, mode);
  const live_epochs = await lockEpochs(tx, updates);
  // Steps are read after the operations are locked, so that they are current.
  const steps = await tx.query<DraftStep>(
    `select *
     from steps
     where workflow_id = any($1)
     order by ordinal`,
    [ids],
    { prepared: true },
  );
  const stepsByOperation = Map.groupBy(steps, (step) => step.workflow_id);
  const { redact } = tx;
  return new Map(
    rows.map((row) => {
      const ownSteps = stepsByOperation.get(row.workflow_id) ?? [];
      return [row.workflow_id, { row, steps: ownSteps, facts: [], samples: [], redact, live_epochs }];
    }),
  );
}

/** The key and the columns that updates may change. */
const operationColumns = (row: OperationRow) => {
  const { workflow_id, status, replica_id, epoch, started_at, finished_at, progress, percent, error } = row;
  return { workflow_id, status, replica_id, epoch, started_at, finished_at, progress, percent, error };
};
const stepColumns = (step: DraftStep) => {
  const { workflow_id, ordinal, status, tries, started_at, finished_at, retry_at, deadline_at, error } = step;
  return { workflow_id, ordinal, status, tries, started_at, finished_at, retry_at, deadline_at, error };
};

async function writeOperations(tx: Transaction, rows: OperationRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(
    `update operations target set
       status = source.status,
       replica_id = source.replica_id,
       epoch = source.epoch,
       started_at = source.started_at,
       finished_at = source.finished_at,
       progress = source.progress,
       percent = source.percent,
       error = source.error
     from jsonb_to_recordset($1::jsonb) as source(
       workflow_id text, status text, replica_id text, epoch bigint, started_at timestamptz,
       finished_at timestamptz, progress jsonb, percent double precision, error jsonb)
     where target.workflow_id = source.workflow_id
       -- Lets the planner use the index.
       and target.workflow_id = any($2)`,
    [JSON.stringify(rows.map(operationColumns)), rows.map(({ workflow_id }) => workflow_id)],
    { prepared: true },
  );
}

async function writeSteps(tx: Transaction, steps: DraftStep[]): Promise<void> {
  if (steps.length === 0) return;
  await tx.query(
    `update steps target set
       status = source.status,
       tries = source.tries,
       started_at = source.started_at,
       finished_at = source.finished_at,
       retry_at = source.retry_at,
       deadline_at = source.deadline_at,
       error = source.error
     from jsonb_to_recordset($1::jsonb) as source(
       workflow_id text, ordinal integer, status text, tries integer, started_at timestamptz,
       finished_at timestamptz, retry_at timestamptz, deadline_at timestamptz, error jsonb)
     where target.workflow_id = source.workflow_id
       and target.ordinal = source.ordinal
       -- Lets the planner use the index.
       and target.workflow_id = any($2)`,
    [JSON.stringify(steps.map(stepColumns)), [...new Set(steps.map(({ workflow_id }) => workflow_id))]],
    { prepared: true },
  );
}

/** Applies an update to a copy of the draft, so that a rejected update leaves nothing behind. */
function applyUpdate(drafts: Map<WorkflowId, OperationDraft>, update: AnyUpdate): Answer {
  const current = drafts.get(update.workflow_id);
  const draft = current && { ...current, facts: [...current.facts], samples: [...current.samples] };
  try {
    const answer = update.apply(draft);
    if (draft) drafts.set(update.workflow_id, draft);
    return async () => answer;
  } catch (error) {
    return () => Promise.reject(error);
  }
}

async function writeUpdates(
  db: Database,
  tx: Transaction,
  updates: readonly AnyUpdate[],
  mode: LockMode,
): Promise<Answer[]> {
  const drafts = await readDrafts(tx, updates, mode);
  const originals = new Map(drafts);
  const answers = updates.map((update) =>
    mode === 'wait' || originals.has(update.workflow_id)
      ? applyUpdate(drafts, update)
      : async () => (await writeBatch(db, [update], 'wait'))[0]?.(),
  );
  const updated = [...drafts.values()];
  const originalOf = ({ row }: OperationDraft) => originals.get(row.workflow_id);
  await writeOperations(
    tx,
    updated.filter((draft) => draft.row !== originalOf(draft)?.row).map(({ row }) => row),
  );
  await writeSteps(
    tx,
    updated.flatMap((draft) => draft.steps.filter((step, index) => step !== originalOf(draft)?.steps[index])),
  );
  await saveStepSamples(
    tx,
    updated.flatMap(({ samples }) => samples),
  );
  await recordEvidence(
    tx,
    updated.flatMap(({ facts }) => facts),
  );
  return answers;
}

/** Bisects a batch that fails, unless the store is unavailable. */
async function writeBatch(db: Database, updates: readonly AnyUpdate[], mode: LockMode): Promise<Answer[]> {
  const write = (some: readonly AnyUpdate[]) => db.transaction((tx) => writeUpdates(db, tx, some, mode));
  const settled = await bisect(updates, write, (error) => error instanceof StoreUnavailable);
  return settled.map((each) => async () => unwrapSettled(each)());
}

const batchers = new WeakMap<Database, (update: AnyUpdate) => Promise<Answer>>();
const delayed = new WeakMap<Database, Map<WorkflowId, Promise<void>>>();

/**
 * Delays updates of operations whose locks the caller holds until it releases them. Otherwise each
 * update would find its row locked and be retried in a transaction of its own, which costs more.
 */
export function delayUpdates(db: Database, ids: readonly WorkflowId[], until: Promise<void>): void {
  const delays = delayed.get(db) ?? new Map<WorkflowId, Promise<void>>();
  delayed.set(db, delays);
  for (const id of ids) delays.set(id, until);
  void until.then(() => {
    // A later call may have replaced the delay.
    for (const id of ids) if (delays.get(id) === until) delays.delete(id);
  });
}

/** Writes an update in the next batch and resolves when it is committed. */
export async function updateOperation<T>(db: Database, update: OperationUpdate<T>): Promise<T> {
  const batcher =
    batchers.get(db) ?? createBatcher((updates: AnyUpdate[]) => writeBatch(db, updates, 'skip locked'), limits);
  batchers.set(db, batcher);
  await delayed.get(db)?.get(update.workflow_id);
  const answer = await batcher(update);
  return (await answer()) as T;
}
