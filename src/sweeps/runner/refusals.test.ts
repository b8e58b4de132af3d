/**
 * A machine whose heartbeats arrive and are refused is not reported as silent, and is not to blame.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { refusedBeatKind } from '../../lifecycle/findings/refused-beats.ts';
import { liveness } from '../rules/liveness.ts';
import { offlineDeadline } from '../rules/offline-deadline.ts';
import { startDeadline } from '../rules/start-deadline.ts';
import { ruleStage, type Stage, staleSeconds } from '../testing/rule-fixture.ts';

let stage: Stage;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  await stage.pool('p', { brake: { min_nodes: 1_000 } });
});
afterEach(() => stage.close());

const refusalOf = async (node: NodeId, seconds: number, shown = 'credential') => {
  const [row] = await stage.rows([node]);
  const data = { code: 'token_unknown', why_not: 'relay token rack-7 was revoked', way_out: 'make another', shown };
  const at = stage.at(seconds).toISOString();
  const fact = { kind: refusedBeatKind, origin: 'internal', at, node_instance_id: row?.node_instance_id, data };
  stage.services.refusals.observe(fact as unknown as Evidence);
};

test('the verdict says that heartbeats are refused if the machine sent them itself and none counted since', async () => {
  const ids = await stage.nodes({ pool: 'p', count: 4 });
  const [refused, named, heardSince] = ids as [NodeId, NodeId, NodeId, NodeId];
  await refusalOf(refused, 10);
  await refusalOf(named, 10, 'name');
  await refusalOf(heardSince, -10);
  const late = staleSeconds + 1;
  await stage.hear(stage.at(late));
  expect(await liveness(stage.services).run(stage.at(late))).toMatchObject({ decided: 4 });
  const said = new Map((await stage.rows(ids)).map(({ node_id, verdict }) => [node_id, verdict]));
  expect(said.get(refused)).toMatchObject({
    owner: 'operator',
    reason:
      'its heartbeats arrive and are refused, for the token of its relay was revoked; none was accepted for 31 s (allowed: 30 s)',
  });
  for (const id of ids.slice(1))
    expect(said.get(id)).toMatchObject({ owner: 'node', reason: 'no heartbeat arrived for 31 s (allowed: 30 s)' });
});

const refusedFor = 'its heartbeats arrive and are refused, for the token of its relay was revoked';

describe('a deadline', () => {
  const rules = { starting: startDeadline, offline: offlineDeadline };
  const dueIn = 60;
  const place = (status: keyof typeof rules, count: number) =>
    stage.nodes({ pool: 'p', count, status, deadline_at: stage.at(dueIn) });
  const verdicts = async (status: keyof typeof rules, ids: NodeId[]) => {
    await stage.hear(stage.at(dueIn));
    expect(await rules[status](stage.services).run(stage.at(dueIn))).toMatchObject({ decided: ids.length });
    const said = new Map((await stage.rows(ids)).map(({ node_id, verdict }) => [node_id, verdict]));
    return ids.map((id) => said.get(id));
  };

  test.for([
    ['starting', `start-up timed out: ${refusedFor} (`, 'start-up timed out: registered, then silent ('],
    ['offline', `it went offline and could not come back in time: ${refusedFor} (`, 'it went offline and did not '],
  ] as const)('of one that is %s says it too', async ([status, refused, silent]) => {
    const ids = await place(status, 4);
    const [refused_id, named, heardSince] = ids as [NodeId, NodeId, NodeId, NodeId];
    await refusalOf(refused_id, 10);
    await refusalOf(named, 10, 'name');
    await refusalOf(heardSince, -10);
    const [first, ...others] = await verdicts(status, ids);
    expect(first).toMatchObject({ owner: 'operator', reason: expect.stringContaining(refused) });
    for (const other of others) expect(other).toMatchObject({ owner: 'node', reason: expect.stringContaining(silent) });
  });

  test('reports refusals of a machine that was never heard', async () => {
    const [id] = (await place('starting', 1)) as [NodeId];
    await stage.db.query('delete from heartbeats');
    await refusalOf(id, 10);
    const [verdict] = await verdicts('starting', [id]);
    expect(verdict).toMatchObject({ owner: 'operator', reason: expect.stringContaining(refusedFor) });
  });

  test('ignores refusals from before the current status', async () => {
    const [id] = (await place('offline', 1)) as [NodeId];
    await refusalOf(id, 10);
    await stage.db.query('update nodes set status_since = $2 where node_id = $1', [id, stage.at(20)]);
    const [verdict] = await verdicts('offline', [id]);
    expect(verdict).toMatchObject({ owner: 'node', reason: expect.stringContaining('did not come back') });
  });

  test('ignores refusals if the machine is gone', async () => {
    const [id] = (await place('offline', 1)) as [NodeId];
    await refusalOf(id, 10);
    await stage.db.query(`update nodes set observed_state = 'absent', observed_at = $1`, [stage.at(20)]);
    const [verdict] = await verdicts('offline', [id]);
    expect(verdict).toMatchObject({ owner: 'node', reason: expect.stringContaining('its machine is gone') });
  });
});
