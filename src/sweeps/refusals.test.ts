/** A machine whose beats arrive and are refused is not called silent, and is not to blame. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../test/support/database.ts';
import type { NodeId } from '../base/ids.ts';
import type { Evidence } from '../contract/evidence.ts';
import { refusedBeatKind } from '../lifecycle/refused-beats.ts';
import { liveness } from './liveness.ts';
import { ruleStage, type Stage, staleSeconds } from './testing/stage.ts';

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
  const fact = { kind: refusedBeatKind, at, node_instance_id: row?.node_instance_id, data };
  stage.services.refusals.observe(fact as unknown as Evidence);
};

test('the verdict says that they are refused, where the machine itself spoke and none of its beats counted since', async () => {
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
      'its heartbeats arrive and are refused, for the token of its relay was revoked; none has counted for 31 s (allowed: 30 s)',
  });
  for (const id of ids.slice(1))
    expect(said.get(id)).toMatchObject({ owner: 'node', reason: 'it has been silent for 31 s (allowed: 30 s)' });
});
