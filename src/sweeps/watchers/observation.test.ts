/**
 * Liveness gives no verdict on agentless machines while their provider cannot be asked, however
 * long that takes.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { moment } from '../../base/clock.ts';
import type { Driver, Observation } from '../../drivers/driver.ts';
import { liveness } from '../rules/liveness.ts';
import type { SweepServices } from '../runner/services.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { brakeWatch } from './brake-watch.ts';
import { observation } from './observation.ts';

const running: Observation = { state: 'Running', present: true, ready: true, detail: null };
const unseen: Observation = { state: 'unknown', present: true, ready: false, detail: 'no route', unseen: true };

let fixture: RuleFixture;
let services: SweepServices;
let observed: Observation;

beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  observed = running;
  const driver = { name: 'scripted', supervision: 'agentless', inspect: async () => observed } as unknown as Driver;
  services = {
    ...fixture.services,
    drivers: new Map([[driver.name, driver]]),
    installation: { installation_id: 'inst' } as SweepServices['installation'],
  };
  await fixture.declarePool('clusters', { driver: 'scripted' });
});
afterEach(() => fixture.close());

/** Runs observation, the brake watch and liveness every two seconds for this long. */
async function runRules(seconds: number): Promise<void> {
  const rules = [observation, brakeWatch, liveness].map((rule) => rule(services));
  const everySeconds = 2;
  for (let passed = 0; passed < seconds; passed += everySeconds) {
    await fixture.clock.advance(everySeconds * 1000);
    const now = moment(fixture.clock.nowMs());
    await fixture.markStored(now);
    for (const rule of rules) await rule.run(now);
  }
}

test('holds the machines before they count as silent, and lifts the holds when the provider answers', async () => {
  const ids = await fixture.addNodes({ pool: 'clusters', count: 3 });
  observed = unseen;
  await runRules(120);
  expect(await fixture.countStatuses(ids)).toEqual({ ready: 3 });
  const released = await fixture.db.query(`select from evidence where kind = 'node.held_over'`);
  expect(released, 'no hold ends while the provider cannot be asked').toEqual([]);
  observed = running;
  await runRules(20);
  expect((await fixture.readNodes(ids)).map(({ status, held }) => [status, held])).toEqual(
    ids.map(() => ['ready', null]),
  );
});
