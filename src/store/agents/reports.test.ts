/** Tests the effect of a node's reports at every status. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment, secondsLater } from '../../base/clock.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import { type ReportedStatus, reportedStatuses } from '../../lifecycle/model/reports.ts';
import { type NodeStatus, nodeStatusNames } from '../../lifecycle/model/states.ts';
import { storeBeats } from '../heartbeats/store-heartbeats.ts';
import type { Database } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { type Fleet, readAllocationRow, readNodeRow, testFleet } from '../testing/fleet.ts';
import { clearReports } from './clear-reports.ts';
import { recordReport } from './reports.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
});

afterAll(() => store.close());

/** Every heartbeat counts as a return after silence, so that no test waits. */
const staleSeconds = 0;

const report = (node: NodeRow, status: ReportedStatus | undefined, at = fleet.now()) =>
  recordReport(
    db,
    { node_id: node.node_id, node_instance_id: node.node_instance_id as NodeInstanceId, stale_seconds: staleSeconds },
    status ? { status } : {},
    at,
    fleet.environment,
  );

/** Creates a failed node that has registered, so that it can send heartbeats. */
async function createLostNode(): Promise<NodeRow> {
  const node = await fleet.node('ready');
  await fleet.move({ node_id: node.node_id, to: 'offline', by: 'liveness', reason: 'silent' });
  await fleet.move({ node_id: node.node_id, to: 'failed', by: 'offline-deadline', reason: 'lost' });
  return readNodeRow(db, node.node_id);
}

/** The status of a node after each report; without an entry the status stays. */
const effects: Partial<Record<NodeStatus, Partial<Record<ReportedStatus | 'nothing', NodeStatus>>>> = {
  starting: { ready: 'ready' },
  ready: { degraded: 'degraded', stopping: 'offline' },
  degraded: { ready: 'ready', stopping: 'offline' },
  offline: { starting: 'ready', ready: 'ready', degraded: 'degraded', nothing: 'ready' },
  failed: { starting: 'starting', ready: 'ready', degraded: 'starting', nothing: 'starting' },
};

test.for(nodeStatusNames)('each report moves a %s node as the table of effects says', async (status) => {
  for (const reported of [...reportedStatuses, 'nothing'] as const) {
    const node = status === 'failed' ? await createLostNode() : await fleet.node(status);
    const outcome = await report(node, reported === 'nothing' ? undefined : reported);
    const expected = effects[status]?.[reported] ?? status;
    expect(outcome, `${status} reports ${reported}`).toMatchObject({ fenced: false, status: expected });
    const after = await readNodeRow(db, node.node_id);
    expect(after.status).toBe(expected);
    // A report is recorded even if it changes no status.
    if (reported !== 'nothing') expect(after.reported_status).toBe(reported);
    if (expected === status) expect(after.status_since).toEqual(node.status_since);
  }
});

test('records a report of `starting` from a ready node and keeps it ready', async () => {
  const node = await fleet.node('starting');
  await report(node, 'ready');
  const ready = await readNodeRow(db, node.node_id);
  expect(await report(node, 'starting')).toMatchObject({ status: 'ready', reported_status: 'starting' });
  expect(await readNodeRow(db, node.node_id)).toEqual({ ...ready, reported_status: 'starting' });
  const facts = await db.query<{ kind: string }>('select kind from evidence where node_id = $1 order by seq', [
    node.node_id,
  ]);
  expect(facts.map((fact) => fact.kind).slice(-3)).toEqual(['node.claim', 'node.ready', 'node.claim']);
});

test('records a repeated report once', async () => {
  const node = await fleet.node('ready');
  for (let i = 0; i < 3; i++) await report(node, 'ready');
  const facts = await db.query(`select 1 from evidence where node_id = $1 and kind = 'node.claim'`, [node.node_id]);
  expect(facts.length).toBe(1);
});

test('moves a node that reports stopping to offline and keeps its allocation active', async () => {
  const node = await fleet.node('ready');
  const held = await fleet.allocation('active', node);
  await report(node, 'stopping');
  expect(await readNodeRow(db, node.node_id)).toMatchObject({ status: 'offline', verdict: { rule: 'goodbye' } });
  expect((await readAllocationRow(db, held.allocation_id)).status).toBe('active');
  await report(node, undefined);
  expect((await readNodeRow(db, node.node_id)).status).toBe('ready');
});

test('rescues node and allocation when a failed node reports ready within its rescue window', async () => {
  const node = await fleet.node('ready');
  const held = await fleet.allocation('active', node);
  await fleet.move({ node_id: node.node_id, to: 'offline', by: 'liveness', reason: 'silent' });
  await fleet.move({ node_id: node.node_id, to: 'failed', by: 'offline-deadline', reason: 'lost' });
  expect((await readAllocationRow(db, held.allocation_id)).status).toBe('failed');
  const failed = await readNodeRow(db, node.node_id);
  await report(failed, 'ready', moment((failed.deadline_at?.getTime() ?? 0) - 1));
  expect((await readNodeRow(db, node.node_id)).status).toBe('ready');
  expect((await readAllocationRow(db, held.allocation_id)).status).toBe('active');
});

test('does not rescue a node by a report after the rescue window', async () => {
  const failed = await createLostNode();
  const late = secondsLater(failed.deadline_at ?? failed.status_since, 0.001);
  expect(await report(failed, 'ready', late)).toMatchObject({ status: 'failed' });
  expect(await readNodeRow(db, failed.node_id)).toEqual({ ...failed, reported_status: 'ready' });
});

test('ignores reports of a former instance', async () => {
  const node = await fleet.node('starting');
  const former = { ...node, node_instance_id: 'inst_former' as NodeInstanceId };
  expect(await report(former, 'ready')).toEqual({ fenced: true });
  expect(await readNodeRow(db, node.node_id)).toEqual(node);
});

test('drops a deferred report that was received before the machine went to another tenant', async () => {
  const node = await fleet.node('ready');
  const node_instance_id = node.node_instance_id as NodeInstanceId;
  const handover = fleet.now();
  await db.transaction(async (tx) => {
    const beat = { interval_seconds: 10, stale_seconds: 30, has_assigned_interval: true, reported: null };
    await storeBeats(tx, [{ ...beat, node_instance_id, received_ms: handover.getTime() - 60_000 }]);
    await clearReports(tx, [node], handover);
  });
  const record = (received_at: Date) =>
    recordReport(
      db,
      { node_id: node.node_id, node_instance_id, stale_seconds: staleSeconds, received_at },
      { status: 'degraded', message: 'from the former tenant' },
      secondsLater(handover, 10),
      fleet.environment,
    );
  expect(await record(secondsLater(handover, -1))).toMatchObject({ fenced: false, status: 'ready' });
  const facts = await db.query(`select 1 from evidence where node_id = $1 and kind = 'node.claim'`, [node.node_id]);
  expect(facts).toEqual([]);
  expect(await record(secondsLater(handover, 1)), 'a newer report counts').toMatchObject({ status: 'degraded' });
});
