/**
 * Each replica starts the operations that its engine supports. Other operations do not block it.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { secondsLater } from '../../base/clock.ts';
import { newCorrelationId, newReplicaId, newWorkflowId, type WorkflowId } from '../../base/ids.ts';
import type { Engine, OperationRun } from '../../engine/engine.ts';
import { becomeExecutor, type Executor } from '../../store/operations/executions.ts';
import { queueOperations } from '../../store/operations/queue-operation.ts';
import { registerReplica } from '../../store/operations/replicas.ts';
import { type Fleet, testFleet } from '../../store/testing/fleet.ts';
import type { SweepServices } from '../runner/services.ts';
import { operationStart } from './operation-start.ts';

let store: TestStore;
let fleet: Fleet;
let executor: Executor;

beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
  const where = { host: 'here', pid: 1, address: 'http://here', version: '1' };
  const lease = { started_at: fleet.now(), lease_until: secondsLater(fleet.now(), 10_000) };
  executor = await registerReplica(store.db, { ...where, ...lease, replica_id: newReplicaId(fleet.clock) });
});
afterAll(() => store.close());

async function queue(kind: string, revision: number, count: number): Promise<WorkflowId[]> {
  const ids = Array.from({ length: count }, () => newWorkflowId(fleet.clock));
  const common = { kind, revision, tenant: null, actor: null, params: {}, steps: [] };
  const all = ids.map((workflow_id) => ({ ...common, workflow_id, correlation_id: newCorrelationId() }));
  await store.db.transaction((tx) => queueOperations(tx, all, fleet.now()));
  return ids;
}

/** A replica whose engine supports certain revisions and refuses others. */
function replica(kind: string, revisions: number[], onStart: (run: OperationRun) => void = () => {}) {
  const started: WorkflowId[] = [];
  const engine = {
    registered: () => revisions.map((revision) => ({ kind, revision })),
    async start(run: OperationRun) {
      if (!revisions.includes(run.revision)) throw new Error(`no operation ${run.kind}@${run.revision} is registered`);
      started.push(run.workflow_id);
      onStart(run);
    },
  } as unknown as Engine;
  const sweep = operationStart({ db: store.db, engine, executor } as SweepServices);
  const run = async () => {
    while ((await sweep.run(fleet.now())).more);
  };
  return { started, run };
}

const readStatuses = async (ids: WorkflowId[]) => {
  const rows = await store.db.query<{ status: string }>(
    'select distinct status from operations where workflow_id = any($1)',
    [ids],
  );
  return rows.map(({ status }) => status);
};

test('leaves operations that only a newer replica can run, however many are queued first', async () => {
  const newer = await queue('renewed', 2, 60);
  const older = await queue('renewed', 1, 2);
  const oldReplica = replica('renewed', [1]);
  await oldReplica.run();
  expect(oldReplica.started.toSorted()).toEqual(older.toSorted());
  expect(await readStatuses(newer)).toEqual(['queued']);
  const newReplica = replica('renewed', [1, 2]);
  await newReplica.run();
  expect(newReplica.started.toSorted()).toEqual(newer.toSorted());
  expect(await readStatuses([...newer, ...older])).toEqual(['running']);
});

test('sets the executor of all runs of a batch in one transaction after the commit', async () => {
  const ids = await queue('eager', 1, 10);
  let transactions = 0;
  const counting = { ...store.db };
  counting.transaction = (work) => {
    transactions++;
    return store.db.transaction(work);
  };
  const updates: Promise<unknown>[] = [];
  const engine = {
    registered: () => [{ kind: 'eager', revision: 1 }],
    async start(run: OperationRun) {
      updates.push(becomeExecutor(counting, run, executor, fleet.now()));
      // Long enough that an update that does not wait for the commit finds every row locked.
      for (let query = 0; query < 10; query++) await store.db.query('select 1');
    },
  } as unknown as Engine;
  await operationStart({ db: counting, engine, executor } as SweepServices).run(fleet.now());
  await Promise.all(updates);
  expect(updates).toHaveLength(ids.length);
  expect(transactions).toBe(2);
  const [{ executed } = { executed: 0 }] = await store.db.query<{ executed: number }>(
    'select count(*)::int as executed from operations where workflow_id = any($1) and epoch = $2',
    [ids, executor.epoch],
  );
  expect(executed).toBe(ids.length);
});
