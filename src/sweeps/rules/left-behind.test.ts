/** Each case is a state that no rule covered in an earlier version, so nodes stayed in it. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import { saveProbeResults } from '../../store/supervision/probes.ts';
import { scanSuspects } from '../../store/supervision/silent-nodes.ts';
import { type RuleFixture, ruleFixture, staleSeconds } from '../testing/rule-fixture.ts';
import { cleanDeadline } from './clean-deadline.ts';
import { liveness } from './liveness.ts';
import { probePromotes } from './probe-promotes.ts';
import { startDeadline } from './start-deadline.ts';

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
});
afterEach(() => fixture.close());

const readNode = async (id: NodeId | undefined) => {
  const [node] = await fixture.readNodes(id ? [id] : []);
  if (!node?.node_instance_id) throw new Error('the node does not exist');
  return { ...node, node_instance_id: node.node_instance_id };
};

const deleteHeartbeats = () => fixture.db.query('delete from heartbeats');

test('supervises a machine that answered a probe before its first heartbeat', async () => {
  await fixture.declarePool('probed', { heartbeat: { interval_seconds: 10, stale_after_seconds: staleSeconds } });
  const [id] = await fixture.addNodes({ pool: 'probed', count: 1, status: 'starting', deadline_at: fixture.at(600) });
  await deleteHeartbeats();
  const { node_id, node_instance_id } = await readNode(id);
  await saveProbeResults(fixture.db, [{ node_id, node_instance_id, ok: true, detail: 'HTTP 200' }], fixture.at(1));
  await probePromotes(fixture.services).run(fixture.at(2));
  expect(await readNode(id)).toMatchObject({ status: 'ready', verdict: { rule: 'probe-promotes' } });

  const silentAt = 2 + staleSeconds + 1;
  await fixture.markStored(fixture.at(silentAt));
  const suspects = await scanSuspects(fixture.db, fixture.at(silentAt - staleSeconds / 2), fixture.at(silentAt));
  expect(suspects.map(({ node_id }) => node_id)).toEqual([id]);
  await liveness(fixture.services).run(fixture.at(2 + staleSeconds));
  expect(await readNode(id)).toMatchObject({ status: 'ready' });
  await liveness(fixture.services).run(fixture.at(silentAt));
  expect(await readNode(id)).toMatchObject({ status: 'offline', verdict: { rule: 'liveness' } });
});

test('fails a machine that sends heartbeats but lacks a prerequisite at its start deadline', async () => {
  await fixture.declarePool('asking', { requires: [{ name: 'gpu', check: 'true' }] });
  const [id] = await fixture.addNodes({ pool: 'asking', count: 1, status: 'starting', deadline_at: fixture.at(10) });
  await fixture.db.query(`update nodes set prerequisites = 'missing'`);
  await fixture.beat(id ? [id] : [], fixture.at(10));
  await startDeadline(fixture.services).run(fixture.at(10));
  const { status, verdict } = await readNode(id);
  expect({ status, rule: verdict?.rule }).toEqual({ status: 'failed', rule: 'start-deadline' });
  expect(verdict?.reason).toContain('a prerequisite is still missing');
});

test.for([
  ['provisioning', 'quarantined'],
  ['active', 'quarantined'],
  ['releasing', 'cleaning'],
  ['release_failed', 'cleaning'],
] as const)(
  'an overdue cleanup under an allocation in %s leaves the node %s',
  async ([allocationStatus, nodeStatus]) => {
    await fixture.declarePool('busy');
    const [id] = await fixture.addNodes({ pool: 'busy', count: 1, status: 'cleaning', deadline_at: fixture.at(10) });
    await fixture.db.query(
      `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
     values ('alloc_1', 'busy', $1, 'acme', $2, $3, 'c', $3)`,
      [id, allocationStatus, fixture.start],
    );
    await cleanDeadline(fixture.services).run(fixture.at(10));
    expect((await readNode(id)).status).toBe(nodeStatus);
  },
);
