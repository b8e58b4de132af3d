/** Updates of many operations share a batch, and each succeeds or fails alone. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { newCorrelationId, newReplicaId, newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { type Database, StoreUnavailable } from '../pg/database.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { claimExecution, ExecutionSuperseded, type Executor, finishOperation, lockAsExecutor } from './executions.ts';
import { readOperation } from './operations.ts';
import { publishProgress } from './publish-progress.ts';
import { queueOperations } from './queue-operation.ts';
import { declareReplicasDead, registerReplica } from './replicas.ts';
import { endStep, startStep } from './steps.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
let executor: Executor;

const replica = (): Promise<Executor> => {
  const now = fleet.now();
  const where = { host: 'here', pid: 1, address: 'http://here', version: '1' };
  const lease = { started_at: now, lease_until: secondsLater(now, 10_000) };
  return registerReplica(db, { ...where, ...lease, replica_id: newReplicaId(fleet.clock) });
};

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  executor = await replica();
});

afterAll(() => store.close());

type Run = { workflow_id: WorkflowId; attempt: number };
const steps = ['first', 'second'].map((name) => ({ name, label: name, usual_seconds: 10, within_seconds: 60 }));

async function queued(count: number): Promise<Run[]> {
  const runs = Array.from({ length: count }, () => ({ workflow_id: newWorkflowId(fleet.clock), attempt: 1 }));
  const fresh = { kind: 'test', revision: 1, tenant: null, actor: null, params: {}, steps };
  await db.transaction((tx) =>
    queueOperations(
      tx,
      runs.map(({ workflow_id }) => ({ ...fresh, workflow_id, correlation_id: newCorrelationId() })),
      fleet.now(),
    ),
  );
  return runs;
}

async function running(count: number): Promise<Run[]> {
  const runs = await queued(count);
  await Promise.all(runs.map((run) => claimExecution(db, run, executor, fleet.now())));
  return runs;
}

const statuses = (runs: Run[]) =>
  Promise.all(
    runs.map(async ({ workflow_id }) => {
      const found = await readOperation(db, workflow_id, wholeFleet, fleet.now());
      return [found?.status, ...(found?.steps ?? []).map(({ status }) => status)].join(' ');
    }),
  );

const factsOf = async ({ workflow_id }: Run) =>
  (
    await db.query<{ kind: string }>('select kind from evidence where workflow_id = $1 order by seq', [workflow_id])
  ).map(({ kind }) => kind);

/** A store that counts its transactions and statements. */
function counted() {
  const counts = { transactions: 0, statements: 0 };
  const counting: Database = {
    ...db,
    transaction: (work) => {
      counts.transactions++;
      return db.transaction((tx) =>
        work({
          ...tx,
          query: (...given) => {
            counts.statements++;
            return tx.query(...given);
          },
        }),
      );
    },
  };
  return { counting, counts };
}

test('writes the updates of a hundred operations in a few statements', async () => {
  const runs = await queued(100);
  const { counting, counts } = counted();
  const each = (write: (run: Run) => Promise<unknown>) => Promise.all(runs.map(write));
  await each((run) => claimExecution(counting, run, executor, fleet.now()));
  await each((run) => startStep(counting, run, 'first', 1, executor, fleet.now()));
  await each((run) => publishProgress(counting, run, { message: 'on its way' }, executor, fleet.now()));
  await each((run) => endStep(counting, run, 'first', { status: 'done', tries: 1 }, executor, fleet.now()));
  await each((run) => finishOperation(counting, run, { status: 'succeeded' }, executor, fleet.now()));
  expect(counts.transactions).toBeLessThanOrEqual(5 * 3);
  expect(counts.statements).toBeLessThanOrEqual(5 * 3 * 7);
  expect(new Set(await statuses(runs))).toEqual(new Set(['succeeded done skipped']));
  const kinds = 'operation.queued operation.started step.started operation.progress step.done operation.succeeded';
  for (const run of runs) expect((await factsOf(run)).join(' ')).toBe(kinds);
});

test('applies updates of one operation in their order', async () => {
  const [ahead, run] = await running(2);
  if (!ahead || !run) throw new Error('none was queued');
  await Promise.all([
    startStep(db, ahead, 'first', 1, executor, fleet.now()),
    startStep(db, run, 'first', 1, executor, fleet.now()),
    endStep(db, run, 'first', { status: 'done', tries: 1 }, executor, fleet.now()),
    startStep(db, run, 'second', 1, executor, fleet.now()),
  ]);
  expect(await statuses([run])).toEqual(['running done running']);
  expect((await factsOf(run)).slice(2)).toEqual(['step.started', 'step.done', 'step.started']);
});

test('refuses only the update that is superseded or cannot be written', async () => {
  const runs = await running(20);
  const [lost, broken, ...others] = runs;
  const heir = await replica();
  if (!lost || !broken) throw new Error('none was queued');
  await claimExecution(db, lost, heir, fleet.now());
  await db.query(
    `alter table operations add constraint unwritable check (progress ->> 'message' <> 'unwritable') not valid`,
  );
  const messageOf = (run: Run) => (run === broken ? 'unwritable' : 'said');
  const written = await Promise.allSettled(
    runs.map((run) => publishProgress(db, run, { message: messageOf(run) }, executor, fleet.now())),
  );
  const refused = written.flatMap((each, place) => (each.status === 'rejected' ? [[place, each.reason]] : []));
  expect(refused).toEqual([
    [0, expect.any(ExecutionSuperseded)],
    [1, expect.objectContaining({ message: expect.stringContaining('unwritable') })],
  ]);
  for (const run of others) expect(await factsOf(run)).toContain('operation.progress');
  for (const run of [lost, broken]) expect(await factsOf(run)).not.toContain('operation.progress');
});

test('waits for a locked operation without delaying the others', async () => {
  const runs = await running(10);
  const held = runs.slice(0, 4);
  const order: string[] = [];
  const begin = (run: Run, word: string) =>
    startStep(db, run, 'first', 1, executor, fleet.now()).then(() => order.push(word));
  const waiting: Promise<unknown>[] = [];
  await db.transaction(async (tx) => {
    for (const run of held) {
      await lockAsExecutor(tx, run.workflow_id, executor);
      waiting.push(begin(run, 'held'));
    }
    await Promise.all(runs.slice(4).map((run) => begin(run, 'free')));
    order.push('released');
  });
  await Promise.all(waiting);
  expect(order.join(' ')).toBe('free free free free free free released held held held held');
});

test('refuses the claims of a dead replica in a batch with others', async () => {
  const runs = await queued(6);
  const dead = await replica();
  await declareReplicasDead(db, [{ replica_id: dead.replica_id, why: 'silent' }], executor.replica_id, fleet.now());
  const claimed = await Promise.allSettled(
    runs.map((run, place) => claimExecution(db, run, place % 2 ? dead : executor, fleet.now())),
  );
  expect(claimed.map(({ status }) => status)).toEqual(runs.map((_, place) => (place % 2 ? 'rejected' : 'fulfilled')));
});

test('does not bisect a batch while the store is unavailable', async () => {
  const runs = await running(30);
  let transactions = 0;
  const away: Database = {
    ...db,
    transaction: async () => {
      transactions++;
      throw new StoreUnavailable('away');
    },
  };
  const written = await Promise.allSettled(
    runs.map((run) => publishProgress(away, run, { message: 'said' }, executor, fleet.now())),
  );
  expect(written.every((each) => each.status === 'rejected' && each.reason instanceof StoreUnavailable)).toBe(true);
  expect(transactions).toBeLessThanOrEqual(3);
});
