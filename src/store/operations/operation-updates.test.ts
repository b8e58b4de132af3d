/** Updates of many operations share a batch, and a failed update does not affect the others. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { newCorrelationId, newReplicaId, newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { type Database, StoreUnavailable } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { becomeExecutor, ExecutionSuperseded, type Executor, finishOperation, lockAsExecutor } from './executions.ts';
import { delayUpdates } from './operation-updates.ts';
import { readOperation } from './operations.ts';
import { publishProgress } from './publish-progress.ts';
import { queueOperations } from './queue-operation.ts';
import { declareReplicasDead, registerReplica } from './replicas.ts';
import { endStep, startStep } from './steps.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
let executor: Executor;

const registerTestReplica = (): Promise<Executor> => {
  const now = fleet.now();
  const where = { host: 'here', pid: 1, address: 'http://here', version: '1' };
  const lease = { started_at: now, lease_until: secondsLater(now, 10_000) };
  return registerReplica(db, { ...where, ...lease, replica_id: newReplicaId(fleet.clock) });
};

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  executor = await registerTestReplica();
});

afterAll(() => store.close());

type Run = { workflow_id: WorkflowId; attempt: number };
const steps = ['first', 'second'].map((name) => ({ name, label: name, usual_seconds: 10, within_seconds: 60 }));

async function queueTestOperations(count: number): Promise<Run[]> {
  const runs = Array.from({ length: count }, () => ({ workflow_id: newWorkflowId(fleet.clock), attempt: 1 }));
  const fields = { kind: 'test', revision: 1, tenant: null, actor: null, params: {}, steps };
  await db.transaction((tx) =>
    queueOperations(
      tx,
      runs.map(({ workflow_id }) => ({ ...fields, workflow_id, correlation_id: newCorrelationId() })),
      fleet.now(),
    ),
  );
  return runs;
}

async function startTestOperations(count: number): Promise<Run[]> {
  const runs = await queueTestOperations(count);
  await Promise.all(runs.map((run) => becomeExecutor(db, run, executor, fleet.now())));
  return runs;
}

const readStatuses = (runs: Run[]) =>
  Promise.all(
    runs.map(async ({ workflow_id }) => {
      const operation = await readOperation(db, workflow_id, wholeFleet, fleet.now());
      return [operation?.status, ...(operation?.steps ?? []).map(({ status }) => status)].join(' ');
    }),
  );

const readFactKinds = async ({ workflow_id }: Run) =>
  (
    await db.query<{ kind: string }>('select kind from evidence where workflow_id = $1 order by seq', [workflow_id])
  ).map(({ kind }) => kind);

/** Wraps the database and counts its transactions and statements. */
function countingDatabase() {
  const counts = { transactions: 0, statements: 0 };
  const counting: Database = {
    ...db,
    transaction: (work) => {
      counts.transactions++;
      return db.transaction((tx) =>
        work({
          ...tx,
          query: (...args) => {
            counts.statements++;
            return tx.query(...args);
          },
        }),
      );
    },
  };
  return { counting, counts };
}

test('writes the updates of a hundred operations in at most 15 transactions', async () => {
  const runs = await queueTestOperations(100);
  const { counting, counts } = countingDatabase();
  const writeAll = (write: (run: Run) => Promise<unknown>) => Promise.all(runs.map(write));
  await writeAll((run) => becomeExecutor(counting, run, executor, fleet.now()));
  await writeAll((run) => startStep(counting, run, 'first', 1, executor, fleet.now()));
  await writeAll((run) => publishProgress(counting, run, { message: 'on its way' }, executor, fleet.now()));
  await writeAll((run) => endStep(counting, run, 'first', { status: 'done', tries: 1 }, executor, fleet.now()));
  await writeAll((run) => finishOperation(counting, run, { status: 'succeeded' }, executor, fleet.now()));
  // Five rounds of updates, each in at most three batches of seven statements.
  expect(counts.transactions).toBeLessThanOrEqual(5 * 3);
  expect(counts.statements).toBeLessThanOrEqual(5 * 3 * 7);
  expect(new Set(await readStatuses(runs))).toEqual(new Set(['succeeded done skipped']));
  const kinds = 'operation.queued operation.started step.started operation.progress step.done operation.succeeded';
  for (const run of runs) expect((await readFactKinds(run)).join(' ')).toBe(kinds);
});

test('applies updates of one operation in the order of the calls', async () => {
  const [ahead, run] = await startTestOperations(2);
  if (!ahead || !run) throw new Error('no operation was queued');
  await Promise.all([
    startStep(db, ahead, 'first', 1, executor, fleet.now()),
    startStep(db, run, 'first', 1, executor, fleet.now()),
    endStep(db, run, 'first', { status: 'done', tries: 1 }, executor, fleet.now()),
    startStep(db, run, 'second', 1, executor, fleet.now()),
  ]);
  expect(await readStatuses([run])).toEqual(['running done running']);
  expect((await readFactKinds(run)).slice(2)).toEqual(['step.started', 'step.done', 'step.started']);
});

test('rejects a superseded update and one that cannot be written, and writes the others', async () => {
  const runs = await startTestOperations(20);
  const [superseded, broken, ...others] = runs;
  const successor = await registerTestReplica();
  if (!superseded || !broken) throw new Error('no operation was queued');
  await becomeExecutor(db, superseded, successor, fleet.now());
  await db.query(
    `alter table operations add constraint unwritable check (progress ->> 'message' <> 'unwritable') not valid`,
  );
  const messageOf = (run: Run) => (run === broken ? 'unwritable' : 'progress');
  const results = await Promise.allSettled(
    runs.map((run) => publishProgress(db, run, { message: messageOf(run) }, executor, fleet.now())),
  );
  const rejections = results.flatMap((each, index) => (each.status === 'rejected' ? [[index, each.reason]] : []));
  expect(rejections).toEqual([
    [0, expect.any(ExecutionSuperseded)],
    [1, expect.objectContaining({ message: expect.stringContaining('unwritable') })],
  ]);
  for (const run of others) expect(await readFactKinds(run)).toContain('operation.progress');
  for (const run of [superseded, broken]) expect(await readFactKinds(run)).not.toContain('operation.progress');
});

test('waits for a locked operation without delaying the others', async () => {
  const runs = await startTestOperations(10);
  const lockedRuns = runs.slice(0, 4);
  const order: string[] = [];
  const begin = (run: Run, word: string) =>
    startStep(db, run, 'first', 1, executor, fleet.now()).then(() => order.push(word));
  const waiting: Promise<unknown>[] = [];
  await db.transaction(async (tx) => {
    for (const run of lockedRuns) {
      await lockAsExecutor(tx, run.workflow_id, executor);
      waiting.push(begin(run, 'locked'));
    }
    await Promise.all(runs.slice(4).map((run) => begin(run, 'free')));
    order.push('released');
  });
  await Promise.all(waiting);
  expect(order.join(' ')).toBe('free free free free free free released locked locked locked locked');
});

test('keeps the later of two delays of one operation until it ends', async () => {
  const [run] = await startTestOperations(1);
  if (!run) throw new Error('no operation was queued');
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  for (const { promise } of [first, second]) delayUpdates(db, [run.workflow_id], promise);
  first.resolve();
  await first.promise;
  const events: string[] = [];
  const started = startStep(db, run, 'first', 1, executor, fleet.now()).then(() => events.push('started'));
  // Updates of other operations are written meanwhile.
  const [other] = await startTestOperations(1);
  if (other) await startStep(db, other, 'first', 1, executor, fleet.now());
  events.push('second delay ends');
  second.resolve();
  await started;
  expect(events).toEqual(['second delay ends', 'started']);
});

test('rejects only the executions of a dead replica in a batch with others', async () => {
  const runs = await queueTestOperations(6);
  const dead = await registerTestReplica();
  await declareReplicasDead(db, [{ replica_id: dead.replica_id, why: 'silent' }], executor.replica_id, fleet.now());
  const results = await Promise.allSettled(
    runs.map((run, index) => becomeExecutor(db, run, index % 2 ? dead : executor, fleet.now())),
  );
  expect(results.map(({ status }) => status)).toEqual(runs.map((_, index) => (index % 2 ? 'rejected' : 'fulfilled')));
});

test('does not bisect a batch while the store is unavailable', async () => {
  const runs = await startTestOperations(30);
  let transactions = 0;
  const unavailable: Database = {
    ...db,
    transaction: async () => {
      transactions++;
      throw new StoreUnavailable('away');
    },
  };
  const results = await Promise.allSettled(
    runs.map((run) => publishProgress(unavailable, run, { message: 'progress' }, executor, fleet.now())),
  );
  expect(results.every((each) => each.status === 'rejected' && each.reason instanceof StoreUnavailable)).toBe(true);
  expect(transactions).toBeLessThanOrEqual(3);
});
