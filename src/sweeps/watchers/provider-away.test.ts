/**
 * While a provider cannot be asked, none of its machines is judged by silence, and no rule between
 * two looks ends that.
 */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { agentlessMachinesToInspect, holdUnseen } from '../../store/supervision/agentless-machines.ts';
import { liveness } from '../rules/liveness.ts';
import { ruleStage, type Stage, staleSeconds } from '../testing/rule-fixture.ts';
import { brakeWatch } from './brake-watch.ts';

let stage: Stage;
beforeEach(async () => {
  stage = ruleStage(await testDatabase());
  await stage.pool('clusters', {});
});
afterEach(() => stage.close());

test('a machine that is held before it falls silent stays held', async () => {
  const ids = await stage.nodes({ pool: 'clusters', count: 1 });
  const look = stage.at(staleSeconds - 5);
  const machines = await agentlessMachinesToInspect(stage.db, ['external'], [], look, 10);
  await holdUnseen(
    stage.db,
    machines.map((machine) => ({ machine, because: 'no route to it' })),
    look,
  );
  await stage.hear(stage.at(staleSeconds + 1));
  await brakeWatch(stage.services).run(stage.at(staleSeconds - 3));
  await liveness(stage.services).run(stage.at(staleSeconds + 1));
  expect(await stage.rows(ids)).toMatchObject([{ status: 'ready', held: { kind: 'provider-away' } }]);
});
