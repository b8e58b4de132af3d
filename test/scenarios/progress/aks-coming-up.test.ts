/**
 * An AKS cluster comes up in five steps with its pools, while Azure says little and asks for
 * retries.
 */
import { afterAll, beforeEach, expect } from 'vitest';
import { headline } from '../../../src/cli/render/allocations/progress.ts';
import type { Progress } from '../../../src/contract/progress.ts';
import type { Driver } from '../../../src/drivers/driver.ts';
import { release } from '../../support/allocations.ts';
import { startArm } from '../../support/arm/arm.ts';
import { paths } from '../../support/arm/faults.ts';
import { refusals } from '../../support/arm/refusal.ts';
import { allocateCluster, onAzure, phases, stepOf, waitForPhase, waitForProgress } from '../support/azure.ts';
import { allocationOf, waitForAllocation } from '../support/machines.ts';
import { scenario } from '../support/scenario.ts';

const arm = await startArm();
afterAll(() => arm.stop());
beforeEach(() => arm.reset());

const creating = 'arm_create_or_update';
const total_steps = phases.length;

/** Takes running for ready. */
const hasty = (driver: Driver): Driver => ({
  ...driver,
  async ensure(target) {
    const answer = await driver.ensure(target);
    const { detail } = await driver.observe(target);
    return detail?.includes('power Running') ? { outcome: 'done', phase: 'completed', message: 'it runs' } : answer;
  },
});

/** Takes "retry later" for a refusal. */
const impatient = (driver: Driver): Driver => ({
  ...driver,
  async ensure(target) {
    const answer = await driver.ensure(target);
    if (answer.outcome !== 'wait' || answer.retry_seconds < 5) return answer;
    const { message } = answer;
    return { outcome: 'failed', owner_layer: 'provider', code: 'conflict', message, retryable: false };
  },
});

const pools = [
  { name: 'systempool', kind: 'pool', state: 'Succeeded', tone: 'ok', count: 1 },
  { name: 'blastpool', kind: 'pool', state: 'Creating', tone: 'busy', count: 10 },
];

scenario({
  name: 'a cluster comes up in five steps, and is ready when it is created and runs',
  settings: onAzure(() => arm),
  async story(context) {
    const { client, db } = context;
    arm.hold('group_visible');
    arm.hold('cluster_visible');
    arm.hold('pool:blastpool');
    // Pools are read more often than Azure's Retry-After asks.
    arm.pace.retry_after = 60;
    const id = await allocateCluster(context, arm);
    const group = await waitForPhase(context, id, 'ensuring_resource_group');
    expect(group).toMatchObject({ step: 2, total_steps, status: 'running', parts: [] });
    arm.letGo('group_visible');
    const unseen = await waitForProgress(context, id, 'the cluster to be requested', ({ message }) =>
      /cluster .+ visible/.test(message),
    );
    expect(unseen).toMatchObject({
      phase: creating,
      step: 3,
      parts: [],
      message: expect.stringMatching(/not visible yet/),
    });
    arm.letGo('cluster_visible');

    // Azure reports `Running` by now, and one of the pools is created.
    const isTakenForFinished = ({ phase }: Progress) => phase === 'ensuring_rbac' || phase === 'completed';
    const shown = await waitForProgress(context, id, 'its pools', (progress) => {
      if (isTakenForFinished(progress)) throw new Error('its creation is taken for finished');
      return progress.parts.some(({ tone }) => tone === 'ok');
    });
    expect(shown).toMatchObject({ status: 'running', phase: creating, step: 3, total_steps, parts: pools });
    expect(shown).toMatchObject({ label: 'Creating AKS cluster', stalled: false });
    expect(shown.message).toMatch(/^AKS state: Creating · ARM \d+s/);
    expect(shown.retry_after_seconds ?? 0, 'a snapshot at least each 20 s').toBeLessThan(20);
    expect(headline({ progress: shown, bar: null, seen_seconds_ago: 0 })).toMatch(
      /^Step 3\/5 · Creating AKS cluster \(5–10 min\) · \d+s$/,
    );
    expect(await allocationOf(context, id)).toMatchObject({ status: 'provisioning' });
    const published = await db.query<{ data: Record<string, unknown> }>(
      `select data from evidence where workflow_id = $1 and kind = 'operation.progress'`,
      [shown.workflow_id],
    );
    for (const { data } of published) expect(data).toMatchObject({ step: expect.any(Number), total_steps });

    arm.letGo();
    const active = await waitForAllocation(context, id, 'active');
    const ended = await context.waitFor('its operation to end', async () => {
      const found = await client.call('operation-get', { params: { id: shown.workflow_id } });
      return found.status === 'succeeded' ? found : undefined;
    });
    expect(ended.steps.map(({ name, status }) => [name, status])).toEqual(phases.map((phase) => [phase, 'done']));
    expect(ended.progress).toMatchObject({ phase: 'completed', step: stepOf('completed'), percent: 100 });
    expect(await client.call('node-get', { params: { id: active.node_id ?? '' } })).toMatchObject({ status: 'ready' });
    expect(arm.clustersCreated()).toBe(1);
    await release(client, id);
    await waitForAllocation(context, id, 'released');
    expect(arm.resources(), 'what is left in Azure').toEqual([]);
    const everything = await db.query('select data, summary from evidence');
    expect(JSON.stringify(everything)).not.toMatch(/arm-planted/);
  },
  counters: [
    {
      broken: 'a driver that takes running for ready',
      composition: onAzure(() => arm, hasty),
      fails: /its creation is taken for finished/,
    },
  ],
});

scenario({
  name: 'a busy, throttling and terse Azure: progress with a time, phase and elapsed time, and no failure',
  settings: onAzure(() => arm),
  async story(context) {
    arm.hold('cluster_create');
    arm.faults.operations_latest = 'missing';
    const came_again_seconds = 5;
    arm.faults.next({ method: 'PUT', path: paths.cluster, does: refusals.inProgress('Updating', came_again_seconds) });
    arm.faults.next({ method: 'PUT', path: paths.cluster, does: refusals.throttled(came_again_seconds) });
    const ids = [await allocateCluster(context, arm), await allocateCluster(context, arm)];
    const busy = await Promise.all(
      ids.map((id) =>
        waitForProgress(context, id, 'when it is tried again', (seen) => seen.retry_after_seconds !== undefined),
      ),
    );
    for (const seen of busy) {
      expect(seen).toMatchObject({ status: 'running', phase: creating, stalled: false });
      expect(seen.error).toBeUndefined();
      expect(seen.retry_after_seconds).toBeLessThanOrEqual(came_again_seconds);
    }
    expect(busy.map(({ message }) => message).join('\n')).toMatch(
      /in progress[\s\S]*throttled|throttled[\s\S]*in progress/,
    );
    for (const [index, id] of ids.entries()) {
      // Azure reports no percentage; everything else is reported all the same.
      const after = await waitForProgress(context, id, 'its creation to go on', ({ message }) =>
        message.startsWith('AKS state'),
      );
      expect(after).toMatchObject({ phase: creating, step: 3, message: expect.stringMatching(/ARM \d+s$/) });
      expect(after.retry_after_seconds).toBeUndefined();
      expect(after.percent).toBeGreaterThanOrEqual(busy[index]?.percent ?? 100);
    }
    arm.letGo();
    for (const id of ids) await waitForAllocation(context, id, 'active');
    expect(arm.clustersCreated()).toBe(2);
  },
  counters: [
    {
      broken: 'a driver that takes it for a failure',
      composition: onAzure(() => arm, impatient),
      fails: /for when it is tried again/,
    },
  ],
});
