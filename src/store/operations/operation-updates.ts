/**
 * The ledger of operations: what executing replicas write of them. An entry changes the page of one operation, in memory; whatever
 * entries came while others were being written are written together, by as many statements as one alone takes.
 */
import { createBatcher } from '../../base/batching/batch.ts';
import { bisect, settledAnswer } from '../../base/batching/bisect.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { Redactor } from '../../base/redaction/redact.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { type Database, StoreUnavailable, type Transaction } from '../pg/database.ts';
import type { OperationRow, StepRow } from './operation-rows.ts';
import { keepStepSamples, type StepSample } from './step-samples.ts';

export type LedgerStep = StepRow & { within_seconds: number | null; deadline_at: Date | null };

/** An operation as it stands under its lock. Rows and steps are replaced, never changed in place: so it is seen which are to be written. */
export interface Page {
  row: OperationRow;
  steps: LedgerStep[];
  facts: Fact[];
  samples: StepSample[];
  readonly redact: Redactor;
  /** Of the lives of replicas that entries asked for, those that are not over. */
  readonly lives: ReadonlySet<string>;
}

export interface Entry<T> {
  workflow_id: WorkflowId;
  /** The life of a replica that must not be over before this is committed. */
  needs_life?: string;
  /**
   * Changes the page and nothing else, since it is called again where the transaction is. What it throws refuses this entry alone,
   * and nothing of it is written. Undefined: there is no such operation.
   */
  write(page: Page | undefined): T;
}

/** Each entry is answered by itself, and by whoever waits for it: one that must wait for a lock keeps nobody else waiting. */
type Answer = () => Promise<unknown>;
type AnyEntry = Entry<unknown>;

/** Two at once, so that a slow one does not keep everybody waiting. */
const limits = { max_keys: 200, max_concurrent: 2 };

export function amendStep(page: Page, step: LedgerStep, set: Partial<LedgerStep>): void {
  page.steps = page.steps.map((each) => (each.ordinal === step.ordinal ? { ...each, ...set } : each));
}

export function amendOperation(page: Page, set: Partial<OperationRow>): void {
  page.row = { ...page.row, ...set };
}

/** Whoever waits for a lock holds no other meanwhile, so that no circle can close, and keeps nobody else waiting. */
type Patience = 'skip locked' | 'alone';

const lockOperations = (tx: Transaction, ids: WorkflowId[], patience: Patience): Promise<OperationRow[]> =>
  tx.query<OperationRow>(
    `select * from operations where workflow_id = any($1) for update ${patience === 'alone' ? '' : patience}`,
    [ids],
    { often: true },
  );

/** The share lock lets nobody declare them dead before the entries are committed, or find their runs without them. */
async function livesOf(tx: Transaction, entries: readonly AnyEntry[]): Promise<Set<string>> {
  const asked = new Set(entries.flatMap(({ needs_life }) => needs_life ?? []));
  if (asked.size === 0) return asked;
  const alive = await tx.query<{ epoch: string }>(
    'select epoch from replicas where epoch = any($1) and ended_at is null for share',
    [[...asked]],
    { often: true },
  );
  return new Set(alive.map(({ epoch }) => epoch));
}

async function readPages(
  tx: Transaction,
  entries: readonly AnyEntry[],
  patience: Patience,
): Promise<Map<WorkflowId, Page>> {
  const ids = [...new Set(entries.map(({ workflow_id }) => workflow_id))];
  const rows = await lockOperations(tx, ids, patience);
  const lives = await livesOf(tx, entries);
  // Read behind the locks: what was written of them before is seen.
  const steps = await tx.query<LedgerStep>('select * from steps where workflow_id = any($1) order by ordinal', [ids], {
    often: true,
  });
  const byOperation = Map.groupBy(steps, (step) => step.workflow_id);
  const { redact } = tx;
  return new Map(
    rows.map((row) => {
      const own = byOperation.get(row.workflow_id) ?? [];
      return [row.workflow_id, { row, steps: own, facts: [], samples: [], redact, lives }];
    }),
  );
}

/** What entries may change, and by what it is found. */
const operationSets = (row: OperationRow) => {
  const { workflow_id, status, replica_id, epoch, started_at, finished_at, progress, percent, error } = row;
  return { workflow_id, status, replica_id, epoch, started_at, finished_at, progress, percent, error };
};
const stepSets = (step: LedgerStep) => {
  const { workflow_id, ordinal, status, tries, started_at, finished_at, retry_at, deadline_at, error } = step;
  return { workflow_id, ordinal, status, tries, started_at, finished_at, retry_at, deadline_at, error };
};

async function writeOperations(tx: Transaction, rows: OperationRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(
    `update operations target set status = source.status, replica_id = source.replica_id, epoch = source.epoch,
       started_at = source.started_at, finished_at = source.finished_at, progress = source.progress,
       percent = source.percent, error = source.error
     from jsonb_to_recordset($1::jsonb) as source(workflow_id text, status text, replica_id text, epoch bigint,
       started_at timestamptz, finished_at timestamptz, progress jsonb, percent double precision, error jsonb)
     where target.workflow_id = source.workflow_id and target.workflow_id = any($2)`,
    [JSON.stringify(rows.map(operationSets)), rows.map(({ workflow_id }) => workflow_id)],
    { often: true },
  );
}

async function writeSteps(tx: Transaction, steps: LedgerStep[]): Promise<void> {
  if (steps.length === 0) return;
  await tx.query(
    `update steps target set status = source.status, tries = source.tries, started_at = source.started_at,
       finished_at = source.finished_at, retry_at = source.retry_at, deadline_at = source.deadline_at, error = source.error
     from jsonb_to_recordset($1::jsonb) as source(workflow_id text, ordinal integer, status text, tries integer,
       started_at timestamptz, finished_at timestamptz, retry_at timestamptz, deadline_at timestamptz, error jsonb)
     where target.workflow_id = source.workflow_id and target.ordinal = source.ordinal and target.workflow_id = any($2)`,
    [JSON.stringify(steps.map(stepSets)), [...new Set(steps.map(({ workflow_id }) => workflow_id))]],
    { often: true },
  );
}

/** On a copy, so that nothing is left of one that is refused. */
function apply(pages: Map<WorkflowId, Page>, entry: AnyEntry): Answer {
  const page = pages.get(entry.workflow_id);
  const draft = page && { ...page, facts: [...page.facts], samples: [...page.samples] };
  try {
    const answer = entry.write(draft);
    if (draft) pages.set(entry.workflow_id, draft);
    return async () => answer;
  } catch (error) {
    return () => Promise.reject(error);
  }
}

async function writeIn(
  db: Database,
  tx: Transaction,
  entries: readonly AnyEntry[],
  patience: Patience,
): Promise<Answer[]> {
  const pages = await readPages(tx, entries, patience);
  const before = new Map(pages);
  const answers = entries.map((entry) =>
    patience === 'alone' || before.has(entry.workflow_id)
      ? apply(pages, entry)
      : async () => (await writeTogether(db, [entry], 'alone'))[0]?.(),
  );
  const after = [...pages.values()];
  const former = ({ row }: Page) => before.get(row.workflow_id);
  await writeOperations(
    tx,
    after.filter((page) => page.row !== former(page)?.row).map(({ row }) => row),
  );
  await writeSteps(
    tx,
    after.flatMap((page) => page.steps.filter((step, place) => step !== former(page)?.steps[place])),
  );
  await keepStepSamples(
    tx,
    after.flatMap(({ samples }) => samples),
  );
  await recordEvidence(
    tx,
    after.flatMap(({ facts }) => facts),
  );
  return answers;
}

/** A store that is away is not asked again. */
async function writeTogether(db: Database, entries: readonly AnyEntry[], patience: Patience): Promise<Answer[]> {
  const serve = (some: readonly AnyEntry[]) => db.transaction((tx) => writeIn(db, tx, some, patience));
  const settled = await bisect(entries, serve, (error) => error instanceof StoreUnavailable);
  return settled.map((each) => async () => settledAnswer(each)());
}

const ledgers = new WeakMap<Database, (entry: AnyEntry) => Promise<Answer>>();
const putOff = new WeakMap<Database, Map<WorkflowId, Promise<void>>>();

/**
 * Whoever holds the locks on operations says so until when: their entries come together after that, and need not find out one by one that
 * they must wait. Without it they would only cost more.
 */
export function delayUpdates(db: Database, ids: readonly WorkflowId[], until: Promise<void>): void {
  const held = putOff.get(db) ?? new Map<WorkflowId, Promise<void>>();
  putOff.set(db, held);
  for (const id of ids) held.set(id, until);
  void until.then(() => {
    for (const id of ids) held.delete(id);
  });
}

/** Writes one entry, with whatever others there are. Answers once it is committed. */
export async function enter<T>(db: Database, entry: Entry<T>): Promise<T> {
  const ledger =
    ledgers.get(db) ?? createBatcher((entries: AnyEntry[]) => writeTogether(db, entries, 'skip locked'), limits);
  ledgers.set(db, ledger);
  await putOff.get(db)?.get(entry.workflow_id);
  const answer = await ledger(entry);
  return (await answer()) as T;
}
