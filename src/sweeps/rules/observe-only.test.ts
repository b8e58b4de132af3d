/** In an observe-only pool a verdict is recorded once and not applied, however often rules run. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import { recordReport } from '../../store/agents/reports.ts';
import { saveProbeResults } from '../../store/supervision/probes.ts';
import { type RuleFixture, ruleFixture, staleSeconds } from '../testing/rule-fixture.ts';
import { liveness } from './liveness.ts';
import { probePromotes } from './probe-promotes.ts';
import { startDeadline } from './start-deadline.ts';
import { stuckStarting } from './stuck-starting.ts';

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('watched', { mode: 'observe' });
});
afterEach(() => fixture.close());

const readWouldHave = async (id: NodeId | undefined) =>
  (
    await fixture.db.query<{ by: string }>(
      `select data ->> 'by' as by from evidence where kind = 'node.would_have' and node_id = $1 order by xid, seq`,
      [id],
    )
  ).map((row) => row.by);

test('records only the first of several verdicts on a node', async () => {
  const [id] = await fixture.addNodes({ pool: 'watched', count: 1, status: 'starting', deadline_at: fixture.at(10) });
  const [node] = await fixture.readNodes(id ? [id] : []);
  if (!node?.node_instance_id) throw new Error('the node does not exist');
  const { node_id, node_instance_id } = node;
  await saveProbeResults(fixture.db, [{ node_id, node_instance_id, ok: true, detail: 'HTTP 200' }], fixture.at(1));
  const rules = [probePromotes, stuckStarting, startDeadline].map((rule) => rule(fixture.services));
  for (let pass = 0; pass < 3; pass++) for (const rule of rules) await rule.run(fixture.at(staleSeconds + 60 + pass));
  expect(await readWouldHave(id)).toEqual(['probe-promotes']);
});

test('records a machine that reports failure with every heartbeat only once', async () => {
  const [id] = await fixture.addNodes({ pool: 'watched', count: 1 });
  const [node] = await fixture.readNodes(id ? [id] : []);
  if (!node?.node_instance_id) throw new Error('the node does not exist');
  const reporter = { node_id: node.node_id, node_instance_id: node.node_instance_id, stale_seconds: staleSeconds };
  for (let beat = 0; beat < 3; beat++)
    await recordReport(
      fixture.db,
      reporter,
      { status: 'ready', error_rate: 0.9 },
      fixture.at(beat),
      fixture.environment,
    );
  expect(await readWouldHave(id)).toEqual(['degraded']);
  expect(await fixture.readNodes(id ? [id] : [])).toMatchObject([
    { status: 'ready', would_have: { rule: 'degraded' } },
  ]);
});

test('applies the verdicts once the pool is no longer observe-only', async () => {
  const [starting] = await fixture.addNodes({
    pool: 'watched',
    count: 1,
    status: 'starting',
    deadline_at: fixture.at(10),
  });
  const [ready] = await fixture.addNodes({ pool: 'watched', count: 1 });
  const at = fixture.at(staleSeconds + 60);
  await fixture.markStored(at);
  const judge = async () => {
    await startDeadline(fixture.services).run(at);
    await liveness(fixture.services).run(at);
  };
  await judge();
  expect([await readWouldHave(starting), await readWouldHave(ready)]).toEqual([['start-deadline'], ['liveness']]);
  await fixture.declarePool('watched', { mode: 'enforce' });
  await judge();
  const ids = [starting, ready].flatMap((id) => id ?? []);
  expect((await fixture.readNodes(ids)).map(({ status }) => status)).toEqual(['failed', 'offline']);
});
