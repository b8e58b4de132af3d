/** No state exists that no rule looks at. Each case here once was one. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import { saveProbeResults } from '../../store/supervision/probes.ts';
import { scanSuspects } from '../../store/supervision/silent-nodes.ts';
import { ruleStage, type Stage, staleSeconds } from '../testing/rule-fixture.ts';
import { cleanDeadline } from './clean-deadline.ts';
import { liveness } from './liveness.ts';
import { probePromotes } from './probe-promotes.ts';
import { startDeadline } from './start-deadline.ts';

let stage: Stage;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
});
afterEach(() => stage.close());

const standing = async (id: NodeId | undefined) => {
  const [node] = await stage.rows(id ? [id] : []);
  if (!node?.node_instance_id) throw new Error('no node was placed');
  return { ...node, node_instance_id: node.node_instance_id };
};

const forgetBeats = () => stage.db.query('delete from heartbeats');

test('supervises a machine that answered a probe before its first heartbeat', async () => {
  await stage.pool('probed', { heartbeat: { interval_seconds: 10, stale_after_seconds: staleSeconds } });
  const [id] = await stage.nodes({ pool: 'probed', count: 1, status: 'starting', deadline_at: stage.at(600) });
  await forgetBeats();
  const { node_id, node_instance_id } = await standing(id);
  await saveProbeResults(stage.db, [{ node_id, node_instance_id, ok: true, detail: 'well' }], stage.at(1));
  await probePromotes(stage.services).run(stage.at(2));
  expect(await standing(id)).toMatchObject({ status: 'ready', verdict: { rule: 'probe-promotes' } });

  const silentAt = 2 + staleSeconds + 1;
  await stage.hear(stage.at(silentAt));
  const suspects = await scanSuspects(stage.db, stage.at(silentAt - staleSeconds / 2), stage.at(silentAt));
  expect(suspects.map(({ node_id }) => node_id)).toEqual([id]);
  await liveness(stage.services).run(stage.at(2 + staleSeconds));
  expect(await standing(id)).toMatchObject({ status: 'ready' });
  await liveness(stage.services).run(stage.at(silentAt));
  expect(await standing(id)).toMatchObject({ status: 'offline', verdict: { rule: 'liveness' } });
});

test('fails a machine that beats but lacks a prerequisite at its start deadline', async () => {
  await stage.pool('asking', { requires: [{ name: 'gpu', check: 'true' }] });
  const [id] = await stage.nodes({ pool: 'asking', count: 1, status: 'starting', deadline_at: stage.at(10) });
  await stage.db.query(`update nodes set prerequisites = 'missing'`);
  await stage.beat(id ? [id] : [], stage.at(10));
  await startDeadline(stage.services).run(stage.at(10));
  const { status, verdict } = await standing(id);
  expect({ status, rule: verdict?.rule }).toEqual({ status: 'failed', rule: 'start-deadline' });
  expect(verdict?.reason).toContain('a prerequisite is still missing');
});

test.for([
  ['provisioning', 'quarantined'],
  ['active', 'quarantined'],
  ['releasing', 'cleaning'],
  ['release_failed', 'cleaning'],
] as const)('a clean-up that does not end, under an allocation that is %s, leaves it %s', async ([held, left]) => {
  await stage.pool('busy');
  const [id] = await stage.nodes({ pool: 'busy', count: 1, status: 'cleaning', deadline_at: stage.at(10) });
  await stage.db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, status, status_since, correlation_id, created_at)
     values ('alloc_1', 'busy', $1, 'acme', $2, $3, 'c', $3)`,
    [id, held, stage.start],
  );
  await cleanDeadline(stage.services).run(stage.at(10));
  expect((await standing(id)).status).toBe(left);
});
