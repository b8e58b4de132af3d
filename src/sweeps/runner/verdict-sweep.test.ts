/**
 * Behaviour shared by all rules on nodes: which nodes are decided on, held or only recorded, and
 * that one bad row stops no other.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import { defaultBrakePolicy } from '../../lifecycle/brake/brake.ts';
import { nodeRetireKind, nodeRetirePlan } from '../../operations/release/node-retire.ts';
import { endWindow, type MaintenanceRow, putWindow } from '../../store/rows/maintenance.ts';
import { newestHolds } from '../../store/supervision/brake.ts';
import { liveness } from '../rules/liveness.ts';
import { rescueOver } from '../rules/rescue-over.ts';
import { startDeadline } from '../rules/start-deadline.ts';
import { ruleStage, type Stage, staleSeconds } from '../testing/rule-fixture.ts';
import { brakeWatch } from '../watchers/brake-watch.ts';

let stage: Stage;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  await stage.pool('p');
});
afterEach(() => stage.close());

const silentAt = staleSeconds + 1;
const actor = { kind: 'person', token_id: 't', name: 'op' } as never;

const judge = async (seconds: number) => {
  await stage.hear(stage.at(seconds));
  await brakeWatch(stage.services).run(stage.at(seconds));
  return liveness(stage.services).run(stage.at(seconds));
};

const held = async (ids: readonly NodeId[]) => (await stage.rows(ids)).map((node) => node.held?.kind ?? null);

const declare = (window: Partial<MaintenanceRow>) =>
  stage.db.transaction((tx) =>
    putWindow(tx, {
      name: 'work',
      pool: null,
      zone: null,
      labels: {},
      starts_at: stage.start,
      ends_at: stage.at(3600),
      reason: 'new racks',
      actor,
      created_at: stage.start,
      ...window,
    }),
  );

test('a row that cannot be written stops no other, is reported once, and is retried later', async () => {
  const ids = await stage.nodes({ pool: 'p', count: 3 });
  const [broken] = ids;
  await stage.db.query(
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'broken row'; end $$`,
  );
  await stage.db.query(
    `create trigger refuse before update of status on nodes for each row when (new.node_id = '${broken}') execute function refuse()`,
  );
  const rule = liveness(stage.services);
  await stage.hear(stage.at(silentAt));
  expect(await rule.run(stage.at(silentAt))).toMatchObject({ decided: 2 });
  expect(await rule.run(stage.at(silentAt))).toMatchObject({ decided: 0 });
  expect(await stage.statuses(ids)).toEqual({ ready: 1, offline: 2 });
  const reports = await stage.db.query<{ node_id: string; summary: string }>(
    `select node_id, summary from evidence where kind = 'verdict.unwritable'`,
  );
  expect(reports).toEqual([{ node_id: broken, summary: 'liveness could not be written: broken row' }]);
  await stage.db.query('drop trigger refuse on nodes');
  await stage.clock.advance(61_000);
  expect(await rule.run(stage.at(silentAt))).toMatchObject({ decided: 1 });
});

test('rounds silence to whole seconds so that it never looks shorter than the limit', async () => {
  const ids = await stage.nodes({ pool: 'p', count: 1 });
  await stage.db.query('update heartbeats set stale_seconds = 33.3');
  await judge(33.6);
  const [node] = await stage.rows(ids);
  expect(node?.verdict?.reason).toBe('no heartbeat arrived for 34 s (allowed: 33 s)');
});

test('judges no node while this replica may be missing heartbeats', async () => {
  const ids = await stage.nodes({ pool: 'p', count: 3 });
  await stage.hear(stage.at(silentAt));
  const deaf = { ...stage.services, ingest: { ...stage.services.ingest, isSteady: () => false } };
  expect(await liveness(deaf).run(stage.at(silentAt))).toMatchObject({ decided: 0, waiting: true });
  expect(await stage.statuses(ids)).toEqual({ ready: 3 });
});

test('a maintenance window holds its nodes without opening an incident or counting towards one', async () => {
  const worked = await stage.nodes({ pool: 'p', count: 10, labels: { rack: 'r1' } });
  const other = await stage.nodes({ pool: 'p', count: 1, labels: { rack: 'r2' } });
  await declare({ labels: { rack: 'r1' } });
  expect(await judge(silentAt)).toMatchObject({ decided: 1, held: 10 });
  expect(await stage.statuses(other)).toEqual({ offline: 1 });
  expect(new Set(await held(worked))).toEqual(new Set(['maintenance']));
  expect(await newestHolds(stage.db, 10)).toEqual([]);
});

test.for<[string, (window: string) => Promise<unknown>]>([
  ['was ended', (name) => stage.db.transaction((tx) => endWindow(tx, name, actor, stage.at(silentAt)))],
  ['speaks of another pool now', () => declare({ pool: 'q' })],
  ['is over sooner now', () => declare({ pool: 'p', ends_at: stage.at(silentAt) })],
])('a window that %s releases its machines', async ([, change]) => {
  await stage.pool('q');
  const ids = await stage.nodes({ pool: 'p', count: defaultBrakePolicy.min_nodes - 1 });
  await declare({ pool: 'p' });
  await judge(silentAt);
  expect(await held(ids)).toEqual(ids.map(() => 'maintenance'));
  await change('work');
  expect(await judge(silentAt + 1)).toMatchObject({ decided: ids.length });
});

test('a lagging replica holds back verdicts until it has caught up', async () => {
  const ids = await stage.nodes({ pool: 'p', count: 2 });
  await stage.hear(stage.at(silentAt - 9), 'rep_slow');
  expect(await judge(silentAt)).toMatchObject({ decided: 0 });
  expect(await held(ids)).toEqual(['self-fault', 'self-fault']);
  await stage.hear(stage.at(silentAt + 2), 'rep_slow');
  expect(await judge(silentAt + 2)).toMatchObject({ decided: 2 });
});

test('does not give up a starting node whose heartbeats are not stored yet', async () => {
  const ids = await stage.nodes({ pool: 'p', count: 1, status: 'starting', deadline_at: stage.at(10) });
  const rule = startDeadline(stage.services);
  await stage.hear(stage.at(silentAt));
  await stage.hear(stage.at(silentAt - 9), 'rep_slow');
  expect(await rule.run(stage.at(silentAt))).toMatchObject({ decided: 0 });
  await stage.hear(stage.at(silentAt), 'rep_slow');
  expect(await rule.run(stage.at(silentAt))).toMatchObject({ decided: 1 });
  expect(await stage.statuses(ids)).toEqual({ failed: 1 });
});

test('a replica that lags forever does not hold nodes forever', async () => {
  await stage.nodes({ pool: 'p', count: 2 });
  const { self_fault_seconds } = stage.environment.brake;
  for (const seconds of [silentAt, silentAt + self_fault_seconds / 2, silentAt + self_fault_seconds]) {
    await stage.db.query(`delete from replicas`);
    await stage.hear(stage.at(silentAt - 10), 'rep_slow');
    await stage.db.query(`update replicas set lease_until = $1`, [stage.at(seconds + 10)]);
    const { decided } = await judge(seconds);
    expect(decided).toBe(seconds < silentAt + self_fault_seconds ? 0 : 2);
  }
});

test('records a destruction in an observe-only pool once, counts it, and does not start it', async () => {
  await stage.pool('watched', { mode: 'observe' });
  const ids = await stage.nodes({ pool: 'watched', count: 2, status: 'failed', deadline_at: stage.at(10) });
  const rule = rescueOver(stage.services);
  expect(await rule.run(stage.at(11))).toMatchObject({ decided: 0, would_have: 2 });
  expect(await rule.run(stage.at(12))).toMatchObject({ decided: 0, would_have: 0 });
  expect((await stage.rows(ids)).map((node) => [node.status, node.would_have?.rule])).toEqual(
    ids.map(() => ['failed', 'rescue-over']),
  );
  expect(await stage.db.query('select 1 from operations')).toEqual([]);
});

test('ends many rescue windows with as many statements as one, each with its fence and operation', async () => {
  let statements = 0;
  const { db } = stage;
  const counted: typeof db = {
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
  const rule = rescueOver({ ...stage.services, db: counted });
  const spent: number[] = [];
  // Fewer than the minimum of the brake.
  for (const [seconds, count] of [
    [10, 1],
    [20, 3],
  ] as const) {
    const ids = await stage.nodes({ pool: 'p', count, status: 'failed', deadline_at: stage.at(seconds) });
    statements = 0;
    expect(await rule.run(stage.at(seconds + 1))).toMatchObject({ decided: count });
    spent.push(statements);
    const retirements = await db.query(
      `select node.status, operation.kind, operation.status as stands, instance.fence_reason, instance.revoked_at,
         (select count(*)::int from steps where steps.workflow_id = operation.workflow_id) as steps
       from nodes node join operations operation using (workflow_id)
       join instances instance on instance.node_instance_id = operation.node_instance_id where node.node_id = any($1)`,
      [ids],
    );
    const one = { status: 'cleaning', kind: nodeRetireKind, stands: 'queued', revoked_at: null };
    const reason = { fence_reason: 'its rescue window ended', steps: nodeRetirePlan.length };
    expect(retirements).toEqual(ids.map(() => ({ ...one, ...reason })));
  }
  expect(spent[1]).toBe(spent[0]);
});
