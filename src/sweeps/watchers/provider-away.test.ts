/**
 * While a provider cannot be asked, no rule judges its machines by silence, and the brake watch
 * does not end their hold.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { findAgentlessMachinesToInspect, holdUnseen } from '../../store/supervision/agentless-machines.ts';
import { liveness } from '../rules/liveness.ts';
import { type RuleFixture, ruleFixture, staleSeconds } from '../testing/rule-fixture.ts';
import { brakeWatch } from './brake-watch.ts';

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
  await fixture.declarePool('clusters', {});
});
afterEach(() => fixture.close());

test('a machine held before it is silent too long stays ready and held', async () => {
  const ids = await fixture.addNodes({ pool: 'clusters', count: 1 });
  const inspectedAt = fixture.at(staleSeconds - 5);
  const machines = await findAgentlessMachinesToInspect(fixture.db, ['external'], [], inspectedAt, 10);
  await holdUnseen(
    fixture.db,
    machines.map((machine) => ({ machine, because: 'no route to it' })),
    inspectedAt,
  );
  await fixture.markStored(fixture.at(staleSeconds + 1));
  await brakeWatch(fixture.services).run(fixture.at(staleSeconds - 3));
  await liveness(fixture.services).run(fixture.at(staleSeconds + 1));
  expect(await fixture.readNodes(ids)).toMatchObject([{ status: 'ready', held: { kind: 'provider-away' } }]);
});
