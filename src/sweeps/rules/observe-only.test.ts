/** An observe-only pool records once what would have been done, however often the rules run. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import { recordReport } from '../../store/agents/reports.ts';
import { saveProbeResults } from '../../store/supervision/probes.ts';
import { ruleStage, type Stage, staleSeconds } from '../testing/rule-fixture.ts';
import { liveness } from './liveness.ts';
import { probePromotes } from './probe-promotes.ts';
import { startDeadline } from './start-deadline.ts';
import { stuckStarting } from './stuck-starting.ts';

let stage: Stage;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  await stage.pool('watched', { mode: 'observe' });
});
afterEach(() => stage.close());

const wouldHave = async (id: NodeId | undefined) =>
  (
    await stage.db.query<{ by: string }>(
      `select data ->> 'by' as by from evidence where kind = 'node.would_have' and node_id = $1 order by xid, seq`,
      [id],
    )
  ).map((row) => row.by);

test('records only the first of several rules that would decide', async () => {
  const [id] = await stage.nodes({ pool: 'watched', count: 1, status: 'starting', deadline_at: stage.at(10) });
  const [node] = await stage.rows(id ? [id] : []);
  if (!node?.node_instance_id) throw new Error('no node was placed');
  const { node_id, node_instance_id } = node;
  await saveProbeResults(stage.db, [{ node_id, node_instance_id, ok: true, detail: 'well' }], stage.at(1));
  const rules = [probePromotes, stuckStarting, startDeadline].map((rule) => rule(stage.services));
  for (let pass = 0; pass < 3; pass++) for (const rule of rules) await rule.run(stage.at(staleSeconds + 60 + pass));
  expect(await wouldHave(id)).toEqual(['probe-promotes']);
});

test('records a machine that reports failure with every heartbeat only once', async () => {
  const [id] = await stage.nodes({ pool: 'watched', count: 1 });
  const [node] = await stage.rows(id ? [id] : []);
  if (!node?.node_instance_id) throw new Error('no node was placed');
  const claiming = { node_id: node.node_id, node_instance_id: node.node_instance_id, stale_seconds: staleSeconds };
  for (let beat = 0; beat < 3; beat++)
    await recordReport(stage.db, claiming, { status: 'ready', error_rate: 0.9 }, stage.at(beat), stage.environment);
  expect(await wouldHave(id)).toEqual(['degraded']);
  expect(await stage.rows(id ? [id] : [])).toMatchObject([{ status: 'ready', would_have: { rule: 'degraded' } }]);
});

test('decides recorded verdicts once the pool is no longer observe-only', async () => {
  const [starting] = await stage.nodes({ pool: 'watched', count: 1, status: 'starting', deadline_at: stage.at(10) });
  const [ready] = await stage.nodes({ pool: 'watched', count: 1 });
  const at = stage.at(staleSeconds + 60);
  await stage.hear(at);
  const judge = async () => {
    await startDeadline(stage.services).run(at);
    await liveness(stage.services).run(at);
  };
  await judge();
  expect([await wouldHave(starting), await wouldHave(ready)]).toEqual([['start-deadline'], ['liveness']]);
  await stage.pool('watched', { mode: 'enforce' });
  await judge();
  const ids = [starting, ready].flatMap((id) => id ?? []);
  expect((await stage.rows(ids)).map(({ status }) => status)).toEqual(['failed', 'offline']);
});
