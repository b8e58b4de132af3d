/**
 * Agentless machines whose provider cannot be asked are not judged for that, however long it lasts
 * and whichever rule looks.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { moment } from '../../base/clock.ts';
import type { Driver, Observation } from '../../drivers/driver.ts';
import { liveness } from '../rules/liveness.ts';
import type { SweepServices } from '../runner/services.ts';
import { ruleStage, type Stage } from '../testing/rule-fixture.ts';
import { brakeWatch } from './brake-watch.ts';
import { observation } from './observation.ts';

const there: Observation = { state: 'Running', present: true, ready: true, detail: null };
const away: Observation = { state: 'unknown', present: true, ready: false, detail: 'no route', unseen: true };

let stage: Stage;
let services: SweepServices;
let shows: Observation;

beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  shows = there;
  const driver = { name: 'played', supervision: 'observe', observe: async () => shows } as unknown as Driver;
  services = {
    ...stage.services,
    drivers: new Map([[driver.name, driver]]),
    installation: { installation_id: 'inst' } as SweepServices['installation'],
  };
  await stage.pool('clusters', { driver: 'played' });
});
afterEach(() => stage.close());

/** Runs each rule in turn; between two looks run the brake watch and liveness once. */
async function goOn(seconds: number): Promise<void> {
  const rules = [observation, brakeWatch, liveness].map((rule) => rule(services));
  const everySeconds = 2;
  for (let passed = 0; passed < seconds; passed += everySeconds) {
    await stage.clock.advance(everySeconds * 1000);
    const now = moment(stage.clock.nowMs());
    await stage.hear(now);
    for (const rule of rules) await rule.run(now);
  }
}

test('holds the machines once, before they count as silent, until their provider answers', async () => {
  const ids = await stage.nodes({ pool: 'clusters', count: 3 });
  shows = away;
  await goOn(120);
  expect(await stage.statuses(ids)).toEqual({ ready: 3 });
  const over = await stage.db.query(`select from evidence where kind = 'node.held_over'`);
  expect(over, 'let go while nobody could look').toEqual([]);
  shows = there;
  await goOn(20);
  expect((await stage.rows(ids)).map(({ status, held }) => [status, held])).toEqual(ids.map(() => ['ready', null]));
});
