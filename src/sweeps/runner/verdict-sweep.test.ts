/**
 * Behaviour that all rules on nodes share: which nodes are decided on, held or only recorded, and
 * that one bad row does not stop the others.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import { defaultBrakePolicy } from '../../lifecycle/brake/brake.ts';
import { nodeRetireKind, nodeRetirePlan } from '../../operations/release/node-retire.ts';
import { endWindow, type MaintenanceRow, putWindow } from '../../store/rows/maintenance.ts';
import { readNewestHolds } from '../../store/supervision/brake.ts';
import { liveness } from '../rules/liveness.ts';
import { rescueOver } from '../rules/rescue-over.ts';
import { startDeadline } from '../rules/start-deadline.ts';
import { type RuleFixture, ruleFixture, staleSeconds } from '../testing/rule-fixture.ts';
import { brakeWatch } from '../watchers/brake-watch.ts';

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
});
afterEach(() => fixture.close());

const silentAt = staleSeconds + 1;
const actor = { kind: 'person', token_id: 't', name: 'op' } as never;

const judge = async (seconds: number) => {
  await fixture.markStored(fixture.at(seconds));
  await brakeWatch(fixture.services).run(fixture.at(seconds));
  return liveness(fixture.services).run(fixture.at(seconds));
};

const holdKinds = async (ids: readonly NodeId[]) =>
  (await fixture.readNodes(ids)).map((node) => node.held?.kind ?? null);

const declare = (window: Partial<MaintenanceRow>) =>
  fixture.db.transaction((tx) =>
    putWindow(tx, {
      name: 'work',
      pool: null,
      zone: null,
      labels: {},
      starts_at: fixture.start,
      ends_at: fixture.at(3600),
      reason: 'new racks',
      actor,
      created_at: fixture.start,
      ...window,
    }),
  );

test('a row that cannot be written does not stop the others, is reported once, and is retried later', async () => {
  const ids = await fixture.addNodes({ pool: 'p', count: 3 });
  const [broken] = ids;
  await fixture.db.query(
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'broken row'; end $$`,
  );
  await fixture.db.query(
    `create trigger refuse before update of status on nodes for each row when (new.node_id = '${broken}') execute function refuse()`,
  );
  const rule = liveness(fixture.services);
  await fixture.markStored(fixture.at(silentAt));
  expect(await rule.run(fixture.at(silentAt))).toMatchObject({ decided: 2 });
  expect(await rule.run(fixture.at(silentAt))).toMatchObject({ decided: 0 });
  expect(await fixture.countStatuses(ids)).toEqual({ ready: 1, offline: 2 });
  const reports = await fixture.db.query<{ node_id: string; summary: string }>(
    `select node_id, summary from evidence where kind = 'verdict.unwritable'`,
  );
  expect(reports).toEqual([{ node_id: broken, summary: 'liveness could not be written: broken row' }]);
  await fixture.db.query('drop trigger refuse on nodes');
  await fixture.clock.advance(61_000);
  expect(await rule.run(fixture.at(silentAt))).toMatchObject({ decided: 1 });
});

test('rounds the silence up and the limit down, so that the silence never looks shorter than the limit', async () => {
  const ids = await fixture.addNodes({ pool: 'p', count: 1 });
  await fixture.db.query('update heartbeats set stale_seconds = 33.3');
  await judge(33.6);
  const [node] = await fixture.readNodes(ids);
  expect(node?.verdict?.reason).toBe('no heartbeat arrived for 34 s (allowed: 33 s)');
});

test('judges no node while this replica may be missing heartbeats', async () => {
  const ids = await fixture.addNodes({ pool: 'p', count: 3 });
  await fixture.markStored(fixture.at(silentAt));
  const unsteadyServices = { ...fixture.services, ingest: { ...fixture.services.ingest, isSteady: () => false } };
  expect(await liveness(unsteadyServices).run(fixture.at(silentAt))).toMatchObject({ decided: 0, waiting: true });
  expect(await fixture.countStatuses(ids)).toEqual({ ready: 3 });
});

test('a maintenance window holds its nodes without opening a brake hold', async () => {
  const covered = await fixture.addNodes({ pool: 'p', count: 10, labels: { rack: 'r1' } });
  const other = await fixture.addNodes({ pool: 'p', count: 1, labels: { rack: 'r2' } });
  await declare({ labels: { rack: 'r1' } });
  expect(await judge(silentAt)).toMatchObject({ decided: 1, held: 10 });
  expect(await fixture.countStatuses(other)).toEqual({ offline: 1 });
  expect(new Set(await holdKinds(covered))).toEqual(new Set(['maintenance']));
  expect(await readNewestHolds(fixture.db, 10)).toEqual([]);
});

test.for<[string, (window: string) => Promise<unknown>]>([
  ['was ended', (name) => fixture.db.transaction((tx) => endWindow(tx, name, actor, fixture.at(silentAt)))],
  ['was moved to another pool', () => declare({ pool: 'q' })],
  ['was shortened to now', () => declare({ pool: 'p', ends_at: fixture.at(silentAt) })],
])('a maintenance window that %s releases its nodes', async ([, change]) => {
  await fixture.declarePool('q');
  const ids = await fixture.addNodes({ pool: 'p', count: defaultBrakePolicy.min_nodes - 1 });
  await declare({ pool: 'p' });
  await judge(silentAt);
  expect(await holdKinds(ids)).toEqual(ids.map(() => 'maintenance'));
  await change('work');
  expect(await judge(silentAt + 1)).toMatchObject({ decided: ids.length });
});

test('holds verdicts while another replica lags with storing heartbeats, until it has caught up', async () => {
  const ids = await fixture.addNodes({ pool: 'p', count: 2 });
  await fixture.markStored(fixture.at(silentAt - 9), 'rep_slow');
  expect(await judge(silentAt)).toMatchObject({ decided: 0 });
  expect(await holdKinds(ids)).toEqual(['self-fault', 'self-fault']);
  await fixture.markStored(fixture.at(silentAt + 2), 'rep_slow');
  expect(await judge(silentAt + 2)).toMatchObject({ decided: 2 });
});

test('does not give up a starting node whose heartbeats are not stored yet', async () => {
  const ids = await fixture.addNodes({ pool: 'p', count: 1, status: 'starting', deadline_at: fixture.at(10) });
  const rule = startDeadline(fixture.services);
  await fixture.markStored(fixture.at(silentAt));
  await fixture.markStored(fixture.at(silentAt - 9), 'rep_slow');
  expect(await rule.run(fixture.at(silentAt))).toMatchObject({ decided: 0 });
  await fixture.markStored(fixture.at(silentAt), 'rep_slow');
  expect(await rule.run(fixture.at(silentAt))).toMatchObject({ decided: 1 });
  expect(await fixture.countStatuses(ids)).toEqual({ failed: 1 });
});

test('decides on nodes after the self-fault limit even if a replica still lags', async () => {
  await fixture.addNodes({ pool: 'p', count: 2 });
  const { self_fault_seconds } = fixture.environment.brake;
  for (const seconds of [silentAt, silentAt + self_fault_seconds / 2, silentAt + self_fault_seconds]) {
    await fixture.db.query(`delete from replicas`);
    await fixture.markStored(fixture.at(silentAt - 10), 'rep_slow');
    await fixture.db.query(`update replicas set lease_until = $1`, [fixture.at(seconds + 10)]);
    const { decided } = await judge(seconds);
    expect(decided).toBe(seconds < silentAt + self_fault_seconds ? 0 : 2);
  }
});

test('in an observe-only pool, records and counts the destruction of a node once and does not start it', async () => {
  await fixture.declarePool('watched', { mode: 'observe' });
  const ids = await fixture.addNodes({ pool: 'watched', count: 2, status: 'failed', deadline_at: fixture.at(10) });
  const rule = rescueOver(fixture.services);
  expect(await rule.run(fixture.at(11))).toMatchObject({ decided: 0, would_have: 2 });
  expect(await rule.run(fixture.at(12))).toMatchObject({ decided: 0, would_have: 0 });
  expect((await fixture.readNodes(ids)).map((node) => [node.status, node.would_have?.rule])).toEqual(
    ids.map(() => ['failed', 'rescue-over']),
  );
  expect(await fixture.db.query('select 1 from operations')).toEqual([]);
});

test('retires three nodes with as many statements as one, each with its fence and operation', async () => {
  let statements = 0;
  const { db } = fixture;
  const countingDb: typeof db = {
    ...db,
    transaction: (work) =>
      db.transaction((tx) => {
        const query: typeof tx.query = (text, values) => {
          statements++;
          return tx.query(text, values);
        };
        return work({ ...tx, query });
      }),
  };
  const rule = rescueOver({ ...fixture.services, db: countingDb });
  const statementCounts: number[] = [];
  // Both counts are below the minimum of the brake.
  for (const [seconds, count] of [
    [10, 1],
    [20, 3],
  ] as const) {
    const ids = await fixture.addNodes({ pool: 'p', count, status: 'failed', deadline_at: fixture.at(seconds) });
    statements = 0;
    expect(await rule.run(fixture.at(seconds + 1))).toMatchObject({ decided: count });
    statementCounts.push(statements);
    const retirements = await db.query(
      `select node.status, operation.kind, operation.status as operation_status, instance.fence_reason, instance.revoked_at,
         (select count(*)::int from steps where steps.workflow_id = operation.workflow_id) as steps
       from nodes node join operations operation using (workflow_id)
       join instances instance on instance.node_instance_id = operation.node_instance_id where node.node_id = any($1)`,
      [ids],
    );
    const one = { status: 'cleaning', kind: nodeRetireKind, operation_status: 'queued', revoked_at: null };
    const reason = { fence_reason: 'its rescue window ended', steps: nodeRetirePlan.length };
    expect(retirements).toEqual(ids.map(() => ({ ...one, ...reason })));
  }
  expect(statementCounts[1]).toBe(statementCounts[0]);
});
