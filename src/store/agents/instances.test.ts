/** Tests the standing of a fenced instance. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { type RuleFixture, ruleFixture } from '../../sweeps/testing/rule-fixture.ts';
import { readInstanceStandings } from './instances.ts';

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
