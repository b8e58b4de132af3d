/** Assigning a batch of requests gives the same result as assigning them one after another. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { simulatedDriver } from '../../../test/scenarios/support/simulated-driver.ts';
import { testDatabase } from '../../../test/support/database.ts';
import type { CorrelationId, WorkflowId } from '../../base/ids.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import type { Installation } from '../../store/keys/installation.ts';
import { lockManyAsExecutor } from '../../store/operations/executions.ts';
import { isLockTimeout, type Transaction } from '../../store/pg/database.ts';
import { currentPool, lockPoolForAssignment } from '../../store/rows/pools.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import { requestAllocation } from '../requests.ts';
import type { OperationServices } from '../runtime/services.ts';
import { type Assignment, assignNode, assignNodes } from './assign-node.ts';
import { createAssigner } from './node-provision.ts';

let fixture: RuleFixture;
let services: OperationServices;

beforeAll(async () => {
  fixture = ruleFixture(await testDatabase());
  const drivers = [simulatedDriver({ name: 'external', launches: false }), simulatedDriver({ name: 'yard' })];
  services = {
    ...fixture.services,
    drivers: new Map(drivers.map((driver) => [driver.name, driver])),
    installation: {
      signEnrollmentToken: ({ node_id }: { node_id: string }) => `token of ${node_id}`,
    } as unknown as Installation,
  };
});
afterAll(() => fixture.close());

const caller = { actor: null, visibility: wholeFleet, correlation_id: 'c' as CorrelationId };

/** Creates a pool with `free` machines and `count` waiting requests, oldest first. */
async function queue(name: string, document: Partial<PoolDocument>, free: number, count: number) {
  await fixture.declarePool(name, document);
  if (free > 0) await fixture.addNodes({ pool: name, count: free });
  const ids: WorkflowId[] = [];
  for (let index = 0; index < count; index++) {
    await fixture.clock.advance(5);
    ids.push(
      (await requestAllocation(services, { pool: name, name: `${name}-${index}` }, caller)).workflow_id as WorkflowId,
    );
  }
  await fixture.db.query(`update operations set status = 'running', epoch = 1 where workflow_id = any($1)`, [ids]);
  return ids;
}

const inTransaction = (ids: WorkflowId[], serve: (tx: Transaction, ids: WorkflowId[]) => Promise<Assignment[]>) =>
  fixture.db.transaction((tx) => serve(tx, ids));
const lockOperations = async (tx: Transaction, ids: WorkflowId[]) => {
  const rows = await lockManyAsExecutor(tx, ids, services.executor);
  return ids.flatMap((id) => rows.find(({ workflow_id }) => workflow_id === id) ?? []);
};
const assignInBatch = (ids: WorkflowId[]) =>
  inTransaction(ids, async (tx) => assignNodes(tx, services, await lockOperations(tx, ids), fixture.at(60)));
async function assignOneByOne(ids: WorkflowId[]): Promise<Assignment[]> {
  const assignments: Assignment[] = [];
  for (const id of ids)
    assignments.push(
      ...(await inTransaction([id], async (tx) => {
        const [row] = await lockOperations(tx, [id]);
        return row ? [await assignNode(tx, services, row, fixture.at(60))] : [];
      })),
    );
  return assignments;
}

/** Returns the outcome of each request without generated ids, so that two pools can be compared. */
async function describeOutcomes(pool: string, ids: WorkflowId[], assignments: Assignment[]): Promise<unknown> {
  const facts = await fixture.db.query<{ workflow_id: string; kinds: string }>(
    `select workflow_id,
       string_agg(
         layer || ' ' || kind || ' ' || (allocation_id is not null) || ' ' || (node_id is not null),
         ', ' order by seq
       ) as kinds
     from evidence
     where workflow_id = any($1)
     group by 1`,
    [ids],
  );
  const rows = await fixture.db.query<{ workflow_id: string; outcome: string }>(
    `select operation.workflow_id,
       concat_ws(
         ' ', allocation.status, allocation.reason, allocation.active_at, node.status,
         operation.node_id = node.node_id,
         operation.node_instance_id = node.node_instance_id,
         node.workflow_id = operation.workflow_id,
         node.correlation_id
       ) as outcome
     from operations operation
     join allocations allocation using (allocation_id)
     left join nodes node on node.node_id = allocation.node_id
     where operation.workflow_id = any($1)`,
    [ids],
  );
  const withoutNames = (text = '') => text.replaceAll(pool, 'pool').replaceAll(/pool-\w{8}\b/g, 'a new one');
  return ids.map((id, index) => {
    const { node_id: _, ...answer } = { node_id: '', ...assignments[index] };
    const kinds = facts.find(({ workflow_id }) => workflow_id === id)?.kinds;
    return [answer, kinds, withoutNames(rows.find(({ workflow_id }) => workflow_id === id)?.outcome)];
  });
}

const cases: { name: string; document: Partial<PoolDocument>; free: number; served: number }[] = [
  { name: 'with free machines for some requests', document: {}, free: 3, served: 3 },
  { name: 'with free machines for all requests', document: {}, free: 9, served: 6 },
  { name: 'without machines', document: {}, free: 0, served: 0 },
  { name: 'with room for some requests', document: { driver: 'yard', max_nodes: 4 }, free: 0, served: 4 },
  {
    name: 'with room and free machines for some requests',
    document: { driver: 'yard', max_nodes: 4 },
    free: 2,
    served: 4,
  },
  { name: 'with room for all requests', document: { driver: 'yard' }, free: 1, served: 6 },
];

test.each(cases)(
  'a pool $name assigns a batch with the same result as single requests',
  async ({ document, free, served }) => {
    const count = 6;
    const prefix = `u${cases.findIndex((each) => each.document === document)}${free}`;
    const batchIds = await queue(`${prefix}-lot`, document, free, count);
    const singleIds = await queue(`${prefix}-one`, document, free, count);
    const assignments = await assignInBatch(batchIds);
    expect(assignments.filter(({ assigned }) => assigned)).toHaveLength(served);
    const expected = await describeOutcomes(`${prefix}-one`, singleIds, await assignOneByOne(singleIds));
    expect(await describeOutcomes(`${prefix}-lot`, batchIds, assignments)).toEqual(expected);
    const assignedNodes = assignments.flatMap((answer) => (answer.assigned ? [answer.node_id] : []));
    expect(new Set(assignedNodes).size).toBe(served);
    // A crash before the answers were recorded repeats the call, which must return the same
    // answers.
    expect(await assignInBatch(batchIds)).toEqual(assignments);
  },
);

test('keeps a free machine for an older request that is not polling', async () => {
  const ids = await queue('patient', {}, 2, 5);
  const younger = await assignInBatch(ids.slice(1));
  expect(younger.map(({ assigned }) => assigned)).toEqual([true, false, false, false]);
  expect(younger[1]).toMatchObject({ waiting_for: 'a free machine in the pool, behind 1 other' });
  expect((await assignInBatch(ids.slice(0, 1)))[0]).toMatchObject({ assigned: true });
});

test('lets a request wait while a free machine is locked, instead of launching beyond the limit', async () => {
  const ids = await queue('in-hand', { driver: 'yard', max_nodes: 3 }, 2, 3);
  await fixture.db.transaction(async (tx) => {
    await tx.query(`select from nodes where node_id = 'node_in-hand_1' for no key update`);
    expect(await assignInBatch(ids)).toEqual([
      { assigned: true, node_id: 'node_in-hand_2', free: true },
      { assigned: true, node_id: expect.any(String), free: false },
      { assigned: false, waiting_for: 'a free machine that is locked right now' },
    ]);
  });
  expect((await assignInBatch(ids)).map((answer) => answer.assigned && answer.free)).toEqual([true, false, true]);
});

test('fails only the request that cannot be stored, not the rest of its batch', async () => {
  const ids = await queue('counter', {}, 20, 20);
  await fixture.db.query(
    `alter table allocations add constraint unservable check (name <> 'counter-7' or status = 'requested') not valid`,
  );
  let transactions = 0;
  const countingServices = { ...services, db: { ...fixture.db } };
  countingServices.db.transaction = (work) => {
    transactions++;
    return fixture.db.transaction(work);
  };
  const assign = createAssigner(countingServices);
  const assignments = await Promise.allSettled(
    ids.map((workflow_id) => assign('counter', { workflow_id, retries: false })),
  );
  expect(assignments.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))).toEqual([7]);
  const assignedNodes = assignments.flatMap((each) =>
    each.status === 'fulfilled' && each.value.assigned ? [each.value.node_id] : [],
  );
  expect(new Set(assignedNodes).size).toBe(19);
  expect(transactions).toBeLessThan(12);
});

test('assigns the rest of a batch before it waits for a locked operation', async () => {
  const ids = await queue('held', {}, 5, 5);
  const [first = '' as WorkflowId, ...others] = ids;
  const assign = createAssigner(services);
  let all: Promise<Assignment[]> | undefined;
  await fixture.db.transaction(async (tx) => {
    await lockManyAsExecutor(tx, [first], services.executor);
    all = Promise.all(ids.map((workflow_id) => assign('held', { workflow_id, retries: false })));
    const countAssigned = async () =>
      (await fixture.db.query('select 1 from operations where workflow_id = any($1) and node_id is not null', [others]))
        .length;
    while ((await countAssigned()) < others.length);
  });
  expect((await all)?.map(({ assigned }) => assigned)).toEqual(Array(5).fill(true));
});

test('an assignment blocks changes of the pool and other assignments, but no new requests', async () => {
  await fixture.declarePool('busy');
  const isBlocked = (ask: (tx: Transaction) => Promise<unknown>) =>
    fixture.db
      .transaction(async (tx) => {
        await tx.query(`set local lock_timeout = '20ms'`);
        await ask(tx);
        return false;
      })
      .catch((error) => isLockTimeout(error) || Promise.reject(error));
  await fixture.db.transaction(async (tx) => {
    await lockPoolForAssignment(tx, 'busy');
    expect(await requestAllocation(services, { pool: 'busy' }, caller)).toMatchObject({
      workflow_id: expect.any(String),
    });
    expect(await isBlocked((other) => currentPool(other, 'busy', 'for share of pool'))).toBe(false);
    expect(await isBlocked((other) => currentPool(other, 'busy', 'for update of pool'))).toBe(true);
    expect(await isBlocked((other) => lockPoolForAssignment(other, 'busy'))).toBe(true);
  });
});
