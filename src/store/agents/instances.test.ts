/** Tests the standing of a fenced instance, and when an agent counts as silent. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import type { NodeId, ReplicaId } from '../../base/ids.ts';
import { type RuleFixture, ruleFixture, staleSeconds } from '../../sweeps/testing/rule-fixture.ts';
import { publishStoredThrough } from '../supervision/ingest-gaps.ts';
import { isAgentFresh, readInstanceStandings } from './instances.ts';

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('p');
});
afterEach(() => fixture.close());

test('a fenced instance without a reason is fenced, and is not called missing', async () => {
  const [node] = await fixture.readNodes(await fixture.addNodes({ pool: 'p', count: 1 }));
  const id = node?.node_instance_id ?? '';
  const readFence = async () => (await readInstanceStandings(fixture.db, [id])).get(id)?.fenced;
  expect(await readFence()).toBeNull();
  await fixture.db.query('update instances set fenced_at = $1', [fixture.start]);
  expect(await readFence()).toBe('no reason is recorded');
  await fixture.db.query(`update instances set fence_reason = 'the machine was reimaged'`);
  expect(await readFence()).toBe('the machine was reimaged');
});

test('an agent is not silent because of a time in which no replica stored heartbeats', async () => {
  const ids = await fixture.addNodes({ pool: 'p', count: 3 });
  const [node, other, silent] = await fixture.readNodes(ids);
  const isFresh = (seconds: number, id = node?.node_instance_id) =>
    isAgentFresh(fixture.db, id as never, fixture.at(seconds));
  await fixture.markStored(fixture.at(staleSeconds + 5));
  expect(await isFresh(staleSeconds - 1)).toBe(true);
  expect(await isFresh(staleSeconds + 1)).toBe(false);

  // Two machines send heartbeats. Then the database is away for longer than the stale time.
  await fixture.beat(ids.slice(0, 2), fixture.at(100));
  await fixture.markStored(fixture.at(101));
  const end = 101 + 2 * staleSeconds;
  expect(await isFresh(end), 'before the gap is recorded').toBe(true);
  const replica = { replica_id: 'rep_test' as ReplicaId, flushed_through: fixture.at(end) };
  expect((await publishStoredThrough(fixture.db, replica, 10, fixture.at(end))).gap).toBeDefined();
  expect(await isFresh(end + 1), 'after the gap is recorded').toBe(true);
  expect(await isFresh(end + 1, silent?.node_instance_id), 'silent before the gap').toBe(false);

  // Only one of them sends heartbeats after the gap.
  await fixture.beat([other?.node_id as NodeId], fixture.at(end + staleSeconds));
  await fixture.markStored(fixture.at(end + staleSeconds + 1));
  expect(await isFresh(end + staleSeconds + 1)).toBe(false);
  expect(await isFresh(end + staleSeconds + 1, other?.node_instance_id)).toBe(true);
});
