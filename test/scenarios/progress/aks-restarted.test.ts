/**
 * The control plane restarts while a slow AKS cluster comes up. The progress bar does not go back,
 * and the cluster is requested once.
 */
import { afterAll, beforeEach, expect, vi } from 'vitest';
import type { Progress } from '../../../src/contract/progress.ts';
import type { Driver } from '../../../src/drivers/driver.ts';
import type { Composition } from '../../../src/server/opening.ts';
import type * as steps from '../../../src/store/operations/steps.ts';
import { startArm } from '../../support/arm/arm.ts';
import { paths } from '../../support/arm/faults.ts';
import { testDatabase } from '../../support/database.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { allocateCluster, onAzure } from '../support/azure.ts';
import { describeStory, type WaitFor, whileBroken } from '../support/scenario.ts';

type Parts = Pick<typeof steps, 'reachPhase'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/store/operations/steps.ts'), async (original) => {
  const originalModule = await original();
  return { ...originalModule, reachPhase: (...args) => (brokenParts.reachPhase ?? originalModule.reachPhase)(...args) };
});

/** A broken `reachPhase` that follows every reported phase, also an earlier one. */
const followEveryPhase: Parts['reachPhase'] = async (db, { workflow_id }, _stage, phase) => {
  await db.query(
    `update steps
     set status = case
       when ordinal = named.at then 'running'
       when ordinal < named.at then 'done'
       else 'pending'
     end
     from (select ordinal as at from steps where workflow_id = $1 and name like '%:' || $2) named
     where workflow_id = $1`,
    [workflow_id, phase],
  );
};

const arm = await startArm();
afterAll(() => arm.stop());
beforeEach(() => arm.reset());

const creatingPhase = 'arm_create_or_update';

/**
 * A driver that reports an earlier phase, as one does that checks its resource group again after a
 * restart.
 */
const reportsEarlierPhase = (driver: Driver): Driver => ({
  ...driver,
  async ensure(target) {
    const answer = await driver.ensure(target);
    return answer.outcome === 'wait' && answer.phase === creatingPhase
      ? { ...answer, phase: 'ensuring_resource_group' }
      : answer;
  },
});

async function story(composition: Composition, waitFor: WaitFor): Promise<void> {
  const database = await testDatabase();
  const start = (drivers: Composition) =>
    inProcessServer({ database_url: database.url, composition: { ...composition, ...drivers } });
  let server: TestServer = await start(onAzure(() => arm));
  try {
    arm.hold('pool:blastpool');
    const id = await allocateCluster(server, arm);
    let last: Progress | undefined;
    const waitForProgress = (what: string, fits: (progress: Progress) => boolean) =>
      waitFor(what, async () => {
        const { progress } = await server.client.call('allocation-get', { params: { id } });
        if (!progress) return undefined;
        if (last && progress.step < last.step) throw new Error(`step went backwards: ${last.step} to ${progress.step}`);
        if (last && progress.percent < last.percent)
          throw new Error(`percent went backwards: ${last.percent} to ${progress.percent}`);
        last = progress;
        return fits(progress) ? progress : undefined;
      });
    const beforeRestart = await waitForProgress('the pools', ({ parts }) => parts.some(({ tone }) => tone === 'busy'));
    expect(beforeRestart).toMatchObject({ phase: creatingPhase, step: 3 });

    await server.stop();
    server = await start(onAzure(() => arm, reportsEarlierPhase));
    const after = await waitForProgress(
      'progress after the restart',
      ({ updated_at }) => updated_at > beforeRestart.updated_at,
    );
    // The progress is that of the same cluster, with an unchanged creation time.
    expect(after).toMatchObject({
      phase: creatingPhase,
      step: 3,
      message: expect.stringMatching(/^AKS state: Creating · for \d/),
    });
    arm.release();
    await waitForProgress(
      'the cluster to be completed',
      ({ phase, percent }) => phase === 'completed' && percent === 100,
    );
    const puts = arm.requests.filter(({ method, path }) => method === 'PUT' && paths.cluster.test(path));
    expect(puts.map(({ status }) => status)).toEqual([201]);
  } finally {
    await server.stop();
    await database.drop();
  }
}

describeStory('a cluster whose creation outlasts the control plane', story, [
  {
    broken: 'steps that follow every reported phase',
    around: whileBroken<Parts>(brokenParts, { reachPhase: followEveryPhase }),
    fails: /step went backwards/,
  },
]);
