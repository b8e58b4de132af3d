/**
 * Updates of operations by the replica that executes them. An update changes one operation in
 * memory; updates that arrive while a batch is written form the next batch, which takes as many
 * statements as one update alone.
 */
import { createBatcher } from '../../base/batching/batch.ts';
import { bisect, settledAnswer } from '../../base/batching/bisect.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { Redactor } from '../../base/redaction/redact.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { type Database, StoreUnavailable, type Transaction } from '../pg/database.ts';
import type { OperationRow, StepRow } from './operation-rows.ts';
import { type StepSample, saveStepSamples } from './step-samples.ts';

export type DraftStep = StepRow & { within_seconds: number | null; deadline_at: Date | null };

/**
 * An operation under its row lock. Rows and steps are replaced and never mutated, so that changed
 * ones are found by identity.
 */
export interface OperationDraft {
  row: OperationRow;
  steps: DraftStep[];
  facts: Fact[];
  samples: StepSample[];
  readonly redact: Redactor;
  /** The epochs among those that updates require whose replica has not ended. */
  readonly live_epochs: ReadonlySet<string>;
}

export interface OperationUpdate<T> {
  workflow_id: WorkflowId;
  /** The epoch of a replica that must not end before this is committed. */
  needs_epoch?: string;
  /**
   * Changes the draft and nothing else: it runs again when the transaction is retried. If it
   * throws, only this update is refused. Undefined: the operation does not exist.
   */
  apply(draft: OperationDraft | undefined): T;
}

/** Settled by its own caller, so that one update that waits for a lock delays no other. */
type Answer = () => Promise<unknown>;
type AnyUpdate = OperationUpdate<unknown>;

/** Two batches at once, so that a slow one does not block the others. */
const limits = { max_keys: 200, max_concurrent: 2 };

export function amendStep(draft: OperationDraft, step: DraftStep, set: Partial<DraftStep>): void {
  draft.steps = draft.steps.map((each) => (each.ordinal === step.ordinal ? { ...each, ...set } : each));
}

export function amendOperation(draft: OperationDraft, set: Partial<OperationRow>): void {
  draft.row = { ...draft.row, ...set };
}

/** An update waits for a lock only if it is alone in its transaction, to avoid deadlocks. */
type LockMode = 'skip locked' | 'wait';

const lockOperations = (tx: Transaction, ids: WorkflowId[], mode: LockMode): Promise<OperationRow[]> =>
  tx.query<OperationRow>(
    `select *
     from operations
     where workflow_id = any($1)
     for update ${mode === 'wait' ? '' : mode}`,
    [ids],
    { often: true },
  );

/** The share lock prevents that these replicas are declared dead before the commit. */
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
    { often: true },
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
  // Read after the locks, so that the steps are current.
  const steps = await tx.query<DraftStep>(
    `select *
     from steps
     where workflow_id = any($1)
     order by ordinal`,
    [ids],
    { often: true },
  );
  const byOperation = Map.groupBy(steps, (step) => step.workflow_id);
  const { redact } = tx;
  return new Map(
    rows.map((row) => {
      const own = byOperation.get(row.workflow_id) ?? [];
      return [row.workflow_id, { row, steps: own, facts: [], samples: [], redact, live_epochs }];
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
    { often: true },
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
    { often: true },
  );
}

/** Applies an update to a copy, so that a refused one leaves nothing behind. */
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

async function writeIn(
  db: Database,
  tx: Transaction,
  updates: readonly AnyUpdate[],
  mode: LockMode,
): Promise<Answer[]> {
  const drafts = await readDrafts(tx, updates, mode);
  const before = new Map(drafts);
  const answers = updates.map((update) =>
    mode === 'wait' || before.has(update.workflow_id)
      ? applyUpdate(drafts, update)
      : async () => (await writeBatch(db, [update], 'wait'))[0]?.(),
  );
  const after = [...drafts.values()];
  const former = ({ row }: OperationDraft) => before.get(row.workflow_id);
  await writeOperations(
    tx,
    after.filter((draft) => draft.row !== former(draft)?.row).map(({ row }) => row),
  );
  await writeSteps(
    tx,
    after.flatMap((draft) => draft.steps.filter((step, index) => step !== former(draft)?.steps[index])),
  );
  await saveStepSamples(
    tx,
    after.flatMap(({ samples }) => samples),
  );
  await recordEvidence(
    tx,
    after.flatMap(({ facts }) => facts),
  );
  return answers;
}

/** Bisects a batch that fails, unless the store is unavailable. */
async function writeBatch(db: Database, updates: readonly AnyUpdate[], mode: LockMode): Promise<Answer[]> {
  const write = (some: readonly AnyUpdate[]) => db.transaction((tx) => writeIn(db, tx, some, mode));
  const settled = await bisect(updates, write, (error) => error instanceof StoreUnavailable);
  return settled.map((each) => async () => settledAnswer(each)());
}

const batchers = new WeakMap<Database, (update: AnyUpdate) => Promise<Answer>>();
const delayed = new WeakMap<Database, Map<WorkflowId, Promise<void>>>();

/**
 * Delays updates of operations whose locks the caller holds, until it releases them. Without this
 * each update would find its row locked and retry alone, which only costs more.
 */
export function delayUpdates(db: Database, ids: readonly WorkflowId[], until: Promise<void>): void {
  const held = delayed.get(db) ?? new Map<WorkflowId, Promise<void>>();
  delayed.set(db, held);
  for (const id of ids) held.set(id, until);
  void until.then(() => {
    for (const id of ids) held.delete(id);
  });
}

/** Writes an update in the next batch, and resolves once it is committed. */
export async function updateOperation<T>(db: Database, update: OperationUpdate<T>): Promise<T> {
  const batcher =
    batchers.get(db) ?? createBatcher((updates: AnyUpdate[]) => writeBatch(db, updates, 'skip locked'), limits);
  batchers.set(db, batcher);
  await delayed.get(db)?.get(update.workflow_id);
  const answer = await batcher(update);
  return (await answer()) as T;
}
