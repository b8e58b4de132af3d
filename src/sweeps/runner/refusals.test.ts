/** A verdict on a machine whose heartbeats are refused says so, and its owner is the operator. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { refusedBeatKind } from '../../lifecycle/findings/refused-beats.ts';
import { liveness } from '../rules/liveness.ts';
import { offlineDeadline } from '../rules/offline-deadline.ts';
import { startDeadline } from '../rules/start-deadline.ts';
import { type RuleFixture, ruleFixture, staleSeconds } from '../testing/rule-fixture.ts';

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p', { brake: { min_nodes: 1_000 } });
});
afterEach(() => fixture.close());

const addRefusal = async (node: NodeId, seconds: number, shown = 'credential') => {
  const [row] = await fixture.readNodes([node]);
  const data = {
    code: 'token_unknown',
    why_not: 'relay token rack-7 was revoked',
    way_out: 'create another token',
    shown,
  };
  const at = fixture.at(seconds).toISOString();
  const fact = { kind: refusedBeatKind, origin: 'internal', at, node_instance_id: row?.node_instance_id, data };
  fixture.services.refusals.observe(fact as unknown as Evidence);
};

test('liveness names the refusal only if the machine showed its credential and no heartbeat was accepted since', async () => {
  const ids = await fixture.addNodes({ pool: 'p', count: 4 });
  const [refused, onlyNamed, acceptedSince] = ids as [NodeId, NodeId, NodeId, NodeId];
  await addRefusal(refused, 10);
  await addRefusal(onlyNamed, 10, 'name');
  await addRefusal(acceptedSince, -10);
  const late = staleSeconds + 1;
  await fixture.markStored(fixture.at(late));
  expect(await liveness(fixture.services).run(fixture.at(late))).toMatchObject({ decided: 4 });
  const verdictOf = new Map((await fixture.readNodes(ids)).map(({ node_id, verdict }) => [node_id, verdict]));
  expect(verdictOf.get(refused)).toMatchObject({
    owner: 'operator',
    reason:
      'its heartbeats arrived and were refused, for the token of its relay was revoked; none was accepted for 31 s (allowed: 30 s)',
  });
  for (const id of ids.slice(1))
    expect(verdictOf.get(id)).toMatchObject({ owner: 'node', reason: 'no heartbeat arrived for 31 s (allowed: 30 s)' });
});

const refusedFor = 'its heartbeats arrived and were refused, for the token of its relay was revoked';

describe('a deadline verdict', () => {
  const rules = { starting: startDeadline, offline: offlineDeadline };
  const dueIn = 60;
  const addDueNodes = (status: keyof typeof rules, count: number) =>
    fixture.addNodes({ pool: 'p', count, status, deadline_at: fixture.at(dueIn) });
  const runRule = async (status: keyof typeof rules, ids: NodeId[]) => {
    await fixture.markStored(fixture.at(dueIn));
    expect(await rules[status](fixture.services).run(fixture.at(dueIn))).toMatchObject({ decided: ids.length });
    const verdictOf = new Map((await fixture.readNodes(ids)).map(({ node_id, verdict }) => [node_id, verdict]));
    return ids.map((id) => verdictOf.get(id));
  };

  test.for([
    ['starting', `start-up timed out: ${refusedFor} (`, 'start-up timed out: registered, then silent ('],
    ['offline', `it went offline and could not come back in time: ${refusedFor} (`, 'it went offline and did not '],
  ] as const)('on a node that is %s names the refusal too', async ([status, refused, silent]) => {
    const ids = await addDueNodes(status, 4);
    const [refused_id, onlyNamed, acceptedSince] = ids as [NodeId, NodeId, NodeId, NodeId];
    await addRefusal(refused_id, 10);
    await addRefusal(onlyNamed, 10, 'name');
    await addRefusal(acceptedSince, -10);
    const [first, ...others] = await runRule(status, ids);
    expect(first).toMatchObject({ owner: 'operator', reason: expect.stringContaining(refused) });
    for (const other of others) expect(other).toMatchObject({ owner: 'node', reason: expect.stringContaining(silent) });
  });

  test('names the refusal if no heartbeat was ever accepted', async () => {
    const [id] = (await addDueNodes('starting', 1)) as [NodeId];
    await fixture.db.query('delete from heartbeats');
    await addRefusal(id, 10);
    const [verdict] = await runRule('starting', [id]);
    expect(verdict).toMatchObject({ owner: 'operator', reason: expect.stringContaining(refusedFor) });
  });

  test('ignores refusals from before the current status', async () => {
    const [id] = (await addDueNodes('offline', 1)) as [NodeId];
    await addRefusal(id, 10);
    await fixture.db.query('update nodes set status_since = $2 where node_id = $1', [id, fixture.at(20)]);
    const [verdict] = await runRule('offline', [id]);
    expect(verdict).toMatchObject({ owner: 'node', reason: expect.stringContaining('did not come back') });
  });

  test('does not mention refusals if the machine is gone', async () => {
    const [id] = (await addDueNodes('offline', 1)) as [NodeId];
    await addRefusal(id, 10);
    await fixture.db.query(`update nodes set observed_state = 'absent', observed_at = $1`, [fixture.at(20)]);
    const [verdict] = await runRule('offline', [id]);
    expect(verdict).toMatchObject({ owner: 'node', reason: expect.stringContaining('its machine is gone') });
  });
});
