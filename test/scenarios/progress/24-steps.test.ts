/** The progress of a cluster shows its step, usual duration, parts, and errors. */
import { expect, vi } from 'vitest';
import { headline } from '../../../src/cli/render/allocations/progress.ts';
import type { Progress } from '../../../src/contract/progress.ts';
import type * as publishing from '../../../src/store/operations/publish-progress.ts';
import { openEvents } from '../../api/support/event-reader.ts';
import { waitForAllocation } from '../support/machines.ts';
import { type ScenarioContext, scenario, whileBroken } from '../support/scenario.ts';
import {
  allocateCluster,
  phases,
  pools,
  progressOf,
  type SlowCluster,
  slowCluster,
  stepOf,
  totalSteps,
  waitOutcome,
  withCluster,
} from '../support/slow-cluster.ts';

type Parts = Pick<typeof publishing, 'publishProgress'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/store/operations/publish-progress.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    publishProgress: (...args) => (brokenParts.publishProgress ?? originalModule.publishProgress)(...args),
  };
});
const neverPublishing = whileBroken<Parts>(brokenParts, { publishProgress: async () => {} });

let cluster: SlowCluster;
const settings = withCluster(slowCluster, (made) => {
  cluster = made;
});
const creatingPhase = 'arm_create_or_update';
const creatingMessage = 'AKS state: Creating · for 1m 40s';

const waitForProgress = (context: ScenarioContext, id: string, what: string, fits: (progress: Progress) => boolean) =>
  context.waitFor(what, async () => {
    const progress = await progressOf(context, id);
    return progress && fits(progress) ? progress : undefined;
  });
const waitForPhase = (context: ScenarioContext, id: string, phase: string) =>
  waitForProgress(context, id, `progress to be in ${phase}`, (progress) => progress.phase === phase);

/** Fields that change as time passes. */
const timeFields = ['percent', 'elapsed_seconds', 'step_elapsed_seconds', 'eta_seconds', 'slower_than', 'stalled'];
const withoutTimeFields = (progress: object | null) =>
  Object.fromEntries(Object.entries(progress ?? {}).filter(([key]) => !timeFields.includes(key)));

scenario({
  name: 'progress of a cluster shows its step, usual duration and pools',
  settings,
  async story(context) {
    const { client, server, db } = context;
    // An earlier cluster provides the usual duration.
    const first = await allocateCluster(context);
    for (const { phase } of phases) {
      cluster.answer = waitOutcome(phase, 'as ever');
      await waitForPhase(context, first, phase);
    }
    cluster.answer = { outcome: 'done', message: 'created' };
    await waitForPhase(context, first, 'register');

    cluster.answer = waitOutcome('creating_cluster', 'not visible at the provider yet');
    const events = await openEvents(server.url, server.token, '?topics=operations,allocations');
    const id = await allocateCluster(context);
    const firstProgress = await waitForProgress(context, id, 'the first message', ({ message }) => message !== '');
    expect(firstProgress).toMatchObject({
      phase: 'creating_cluster',
      message: 'not visible at the provider yet',
      parts: [],
    });
    cluster.answer = waitOutcome(creatingPhase, creatingMessage, { parts: pools });
    const progress = await waitForProgress(
      context,
      id,
      'the pools of the cluster',
      ({ parts }) => parts.length === pools.length,
    );
    expect(progress).toMatchObject({
      ...{
        status: 'running',
        phase: creatingPhase,
        label: 'Creating the cluster',
        message: creatingMessage,
        parts: pools,
      },
      ...{ step: stepOf(creatingPhase), total_steps: totalSteps, expected: { samples: 1 } },
    });
    expect(headline({ progress, bar: null, seen_seconds_ago: 0 })).toMatch(
      new RegExp(
        `^Step ${stepOf(creatingPhase)}/${totalSteps} · Creating the cluster \\(usually .+, seen once\\) · \\d+s$`,
      ),
    );

    // The API and the stream show the same object.
    const { workflow_id } = progress;
    const operation = await client.call('operation-get', { params: { id: workflow_id } });
    expect(withoutTimeFields(operation.progress)).toEqual(withoutTimeFields(progress));
    const streamEvent = await events.waitFor('the pools on the stream', ({ name, data }) => {
      const { parts = [] } = (data.progress ?? {}) as Partial<Progress>;
      return name === 'operation' && data.workflow_id === workflow_id && parts.length === pools.length;
    });
    expect(withoutTimeFields(streamEvent.data.progress as object)).toEqual(withoutTimeFields(progress));
    await events.close();

    const publishedFacts = await db.query<{ data: Record<string, unknown> }>(
      `select data from evidence where workflow_id = $1 and kind = 'operation.progress'`,
      [workflow_id],
    );
    expect(publishedFacts.length).toBeGreaterThan(1);
    for (const { data } of publishedFacts)
      expect(data).toMatchObject({ step: expect.any(Number), total_steps: totalSteps });
  },
  counterTests: [{ broken: 'nothing published', around: neverPublishing, fails: /for the first message/ }],
});

scenario({
  name: 'a provider without details: progress shows phase and time, and the same to a new reader',
  settings: withCluster(
    () => slowCluster([]),
    (made) => {
      cluster = made;
    },
  ),
  async story(context) {
    cluster.answer = waitOutcome(undefined, 'working on it');
    const id = await allocateCluster(context);
    const first = await waitForProgress(context, id, 'the message', ({ message }) =>
      message.startsWith('working on it'),
    );
    expect(first).toMatchObject({
      phase: 'launch',
      step: 2,
      total_steps: 4,
      parts: [],
      expected: null,
      stalled: false,
    });
    expect(first).toMatchObject({ eta_seconds: null, slower_than: null });
    // A new reader who knows only the id sees the same progress.
    const secondReading = await progressOf(context, id);
    expect(withoutTimeFields(secondReading)).toEqual(withoutTimeFields(first));
    expect(secondReading?.elapsed_seconds).toBeGreaterThanOrEqual(first.elapsed_seconds);
  },
  counterTests: [{ broken: 'nothing published', around: neverPublishing, fails: /for the message/ }],
});

/** A driver that treats a running cluster as ready. */
const withoutWaiting = (made: SlowCluster): SlowCluster => {
  const { driver } = made;
  const ensure: typeof driver.ensure = async (target) =>
    made.observed === 'Running' ? { outcome: 'done', message: 'it runs' } : driver.ensure(target);
  made.driver = { ...driver, ensure };
  return made;
};

scenario({
  name: 'a cluster that runs while it is being created is not ready, and a later failure is shown',
  settings,
  async story(context) {
    const id = await allocateCluster(context);
    cluster.observed = 'Running';
    const runs = 'power state: Running · provisioning: Creating';
    cluster.answer = waitOutcome(creatingPhase, runs, { parts: pools });
    const countsAsFinished = (progress: Progress | null | undefined) =>
      progress?.phase === 'register' || progress?.phase === 'start';
    await waitForProgress(context, id, 'the creation to continue', (progress) => {
      if (countsAsFinished(progress)) throw new Error('the creation counted as finished');
      return progress.message.startsWith(runs);
    });
    await context.expectNever('the creation counted as finished', 1, async () =>
      countsAsFinished(await progressOf(context, id)),
    );
    await waitForPhase(context, id, creatingPhase);

    const denialMessage = 'the role assignment was denied';
    const failure = { owner_layer: 'provider', code: 'role_assignment_denied', message: denialMessage } as const;
    cluster.answer = { outcome: 'failed', ...failure, retryable: false, phase: 'ensuring_rbac' };
    const failed = await waitForAllocation(context, id, 'failed');
    expect(failed.reason).toContain(denialMessage);
    const { steps, progress, error } = await context.waitFor('the operation to end', async () => {
      const found = await context.client.call('operation-get', { params: { id: failed.workflow_id ?? '' } });
      return found.status === 'failed' ? found : undefined;
    });
    expect(steps.find(({ name }) => name === creatingPhase)?.status).toBe('done');
    expect(steps.find(({ name }) => name === 'ensuring_rbac')).toMatchObject({ status: 'failed', error: failure });
    expect(progress).toMatchObject({ phase: 'ensuring_rbac', status: 'failed', error: { code: failure.code } });
    expect(progress.percent).toBeLessThan(100);
    expect(error?.message).toContain(denialMessage);
  },
  counterTests: [
    {
      broken: 'a provider that counts as done too early',
      composition: withCluster(
        () => withoutWaiting(slowCluster()),
        (made) => {
          cluster = made;
        },
      ),
      fails: /the creation counted as finished/,
    },
  ],
});

const conflict = 'another operation on the cluster is in progress';
/** Long enough to be reported. */
const retry_seconds = 5;

scenario({
  name: 'a busy provider is retried: progress shows the retry time and no failure',
  settings,
  async story(context) {
    cluster.answer = waitOutcome(creatingPhase, conflict, { retry_seconds, put_off: true });
    const id = await allocateCluster(context);
    const busyProgress = await waitForProgress(
      context,
      id,
      'the time of the next try',
      (seen) => seen.retry_after_seconds !== undefined,
    );
    expect(busyProgress).toMatchObject({ status: 'running', phase: creatingPhase, stalled: false });
    expect(busyProgress.message).toContain(conflict);
    expect(busyProgress.error).toBeUndefined();
    expect(busyProgress.retry_after_seconds).toBeLessThanOrEqual(retry_seconds);
    cluster.answer = waitOutcome(creatingPhase, creatingMessage, { parts: pools });
    const after = await waitForProgress(context, id, 'the creation to continue', ({ message }) =>
      message.startsWith(creatingMessage),
    );
    expect(after.retry_after_seconds).toBeUndefined();
    expect(after.percent).toBeGreaterThanOrEqual(busyProgress.percent);
  },
  counterTests: [
    {
      broken: 'a conflict at the provider treated as a failure',
      composition: withCluster(
        () => {
          const made = slowCluster();
          const answer = { outcome: 'failed', owner_layer: 'provider', code: 'conflict', message: conflict } as const;
          const ensure = async () => ({ ...answer, retryable: false });
          return { ...made, driver: { ...made.driver, ensure } };
        },
        (made) => {
          cluster = made;
        },
      ),
      fails: /for the time of the next try/,
    },
  ],
});
