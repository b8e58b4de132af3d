/**
 * A progress bar never goes back, not after a provider's message and not after a restart. It moves
 * within a long step.
 */
import { expect, vi } from 'vitest';
import type { Progress } from '../../../src/contract/progress.ts';
import type { Composition } from '../../../src/server/opening.ts';
import type * as steps from '../../../src/store/operations/steps.ts';
import { openEvents } from '../../api/support/event-reader.ts';
import { testDatabase } from '../../support/database.ts';
import { openDatabaseConnection } from '../../support/database-connection.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { describeStory, type WaitFor, whileBroken } from '../support/scenario.ts';
import { slowCluster, stepOf, waitOutcome } from '../support/slow-cluster.ts';

type Parts = Pick<typeof steps, 'reachPhase'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/store/operations/steps.ts'), async (original) => {
  const originalModule = await original();
  return { ...originalModule, reachPhase: (...args) => (brokenParts.reachPhase ?? originalModule.reachPhase)(...args) };
});

/** A broken `reachPhase` that follows every reported phase, also an earlier one. */
const followEveryPhase: Parts['reachPhase'] = async (db, { workflow_id }, stage, phase) => {
  const name = `${stage}:${phase}`;
  await db.query(
    `update steps
     set status = case
       when name = $2 then 'running'
       when ordinal < named.at then 'done'
       else 'pending'
     end
     from (select ordinal as at from steps where workflow_id = $1 and name = $2) named
     where workflow_id = $1`,
    [workflow_id, name],
  );
};

const creatingPhase = 'arm_create_or_update';

async function story(composition: Composition, waitFor: WaitFor): Promise<void> {
  const database = await testDatabase();
  const cluster = slowCluster();
  const drivers: Composition['drivers'] = (built) => new Map([...built, ['simulated', cluster.driver]]);
  const start = () => inProcessServer({ database_url: database.url, composition: { ...composition, drivers } });
  let server: TestServer = await start();
  try {
    await server.client.call('pool-put', { params: { pool: 'clusters' }, body: { driver: 'simulated' } });
    const { operation } = await server.client.call('allocation-create', { body: { pool: 'clusters' } });
    const id = operation?.workflow_id ?? '';
    let last: Progress | undefined;
    const readProgress = async (): Promise<Progress> => {
      const { progress } = await server.client.call('operation-get', { params: { id } });
      if (last && progress.step < last.step) throw new Error(`step went backwards: ${last.step} to ${progress.step}`);
      if (last && progress.percent < last.percent)
        throw new Error(`percent went backwards: ${last.percent} to ${progress.percent}`);
      last = progress;
      return progress;
    };
    const waitForProgress = (what: string, fits: (progress: Progress) => boolean) =>
      waitFor(what, async () => {
        const progress = await readProgress();
        return fits(progress) ? progress : undefined;
      });

    cluster.answer = waitOutcome(creatingPhase, 'creating');
    const creationProgress = await waitForProgress(
      'the creation of the cluster',
      ({ phase, message }) => phase === creatingPhase && message.startsWith('creating'),
    );
    // An earlier phase that the provider reports does not change the current step.
    cluster.answer = waitOutcome('ensuring_resource_group', 'tagging the resource group again');
    const taggingProgress = await waitForProgress('the message about tags', ({ message }) =>
      message.startsWith('tagging'),
    );
    expect(taggingProgress).toMatchObject({ phase: creatingPhase, step: stepOf(creatingPhase) });

    await server.stop();
    const percentBeforeRestart = last?.percent ?? 0;
    server = await start();
    cluster.answer = waitOutcome(creatingPhase, 'still creating');
    const after = await waitForProgress('progress after the restart', ({ message }) =>
      message.startsWith('still creating'),
    );
    expect(after.percent).toBeGreaterThanOrEqual(percentBeforeRestart);
    // In a long step the bar moves with time and stays below the step's end.
    const laterProgress = await waitForProgress(
      'the bar to move within its step',
      ({ percent }) => percent > creationProgress.percent + 1,
    );
    expect(laterProgress.step).toBe(stepOf(creatingPhase));
    // On the stream the bar moves too, even while the provider reports nothing new.
    const events = await openEvents(server.url, server.token, `?topics=operations&workflow_id=${id}`);
    const event = await events.waitFor('the bar to move on the stream', ({ name, data }) => {
      const { percent = 0, updated_at } = (data.progress ?? {}) as Partial<Progress>;
      return name === 'operation' && updated_at === laterProgress.updated_at && percent > laterProgress.percent;
    });
    await events.close();
    cluster.answer = waitOutcome('ensuring_rbac', 'assigning roles');
    const next = await waitForProgress('the next step', ({ phase }) => phase === 'ensuring_rbac');
    expect(next.step).toBe(stepOf('ensuring_rbac'));
    expect(next.percent).toBeGreaterThan((event.data.progress as Progress).percent);
    const db = await openDatabaseConnection(database.url);
    const [row] = await db.query<{ percent: number }>('select percent from operations where workflow_id = $1', [id]);
    await db.close();
    expect(row?.percent, 'the published percentage is on the row').toBeGreaterThan(laterProgress.percent / 2);
  } finally {
    await server.stop();
    await database.drop();
  }
}

describeStory('a slow cluster', story, [
  {
    broken: 'steps that follow every reported phase',
    around: whileBroken<Parts>(brokenParts, { reachPhase: followEveryPhase }),
    fails: /step went backwards/,
  },
]);
