/**
 * An AKS cluster comes up in five steps with its pools, while Azure reports few details and asks
 * for retries.
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

const creatingPhase = 'arm_create_or_update';
const total_steps = phases.length;

/** A driver that treats a running cluster as ready. */
const withoutWaiting = (driver: Driver): Driver => ({
  ...driver,
  async ensure(target) {
    const answer = await driver.ensure(target);
    const { detail } = await driver.inspect(target);
    return detail?.includes('power Running') ? { outcome: 'done', phase: 'completed', message: 'it runs' } : answer;
  },
});

/** A driver that treats "retry later" as a refusal. */
const withoutRetries = (driver: Driver): Driver => ({
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
    arm.release('group_visible');
    const earlyProgress = await waitForProgress(context, id, 'the cluster to be requested', ({ message }) =>
      /cluster .+ visible/.test(message),
    );
    expect(earlyProgress).toMatchObject({
      phase: creatingPhase,
      step: 3,
      parts: [],
      message: expect.stringMatching(/not visible yet/),
    });
    arm.release('cluster_visible');

    // Azure reports `Running` by now, and one of the pools is created.
    const countsAsFinished = ({ phase }: Progress) => phase === 'ensuring_rbac' || phase === 'completed';
    const progress = await waitForProgress(context, id, 'the pools', (current) => {
      if (countsAsFinished(current)) throw new Error('the creation counted as finished');
      return current.parts.some(({ tone }) => tone === 'ok');
    });
    expect(progress).toMatchObject({ status: 'running', phase: creatingPhase, step: 3, total_steps, parts: pools });
    expect(progress).toMatchObject({ label: 'Creating AKS cluster', stalled: false });
    expect(progress.message).toMatch(/^AKS state: Creating · for \d+s/);
    expect(progress.retry_after_seconds ?? 0, 'the seconds to the next snapshot').toBeLessThan(20);
    expect(headline({ progress, bar: null, seen_seconds_ago: 0 })).toMatch(
      /^Step 3\/5 · Creating AKS cluster \(5–10 min\) · \d+s$/,
    );
    expect(await allocationOf(context, id)).toMatchObject({ status: 'provisioning' });
    const publishedFacts = await db.query<{ data: Record<string, unknown> }>(
      `select data from evidence where workflow_id = $1 and kind = 'operation.progress'`,
      [progress.workflow_id],
    );
    for (const { data } of publishedFacts) expect(data).toMatchObject({ step: expect.any(Number), total_steps });

    arm.release();
    const active = await waitForAllocation(context, id, 'active');
    const endedOperation = await context.waitFor('the operation to end', async () => {
      const found = await client.call('operation-get', { params: { id: progress.workflow_id } });
      return found.status === 'succeeded' ? found : undefined;
    });
    expect(endedOperation.steps.map(({ name, status }) => [name, status])).toEqual(
      phases.map((phase) => [phase, 'done']),
    );
    expect(endedOperation.progress).toMatchObject({ phase: 'completed', step: stepOf('completed'), percent: 100 });
    expect(await client.call('node-get', { params: { id: active.node_id ?? '' } })).toMatchObject({ status: 'ready' });
    expect(arm.clustersCreated()).toBe(1);
    await release(client, id);
    await waitForAllocation(context, id, 'released');
    expect(arm.resources(), 'resources left in Azure').toEqual([]);
    const everything = await db.query('select data, summary from evidence');
    expect(JSON.stringify(everything)).not.toMatch(/arm-planted/);
  },
  counterTests: [
    {
      broken: 'a driver that treats a running cluster as ready',
      composition: onAzure(() => arm, withoutWaiting),
      fails: /the creation counted as finished/,
    },
  ],
});

scenario({
  name: 'a busy and throttling Azure without percentages: progress shows phase and times, and no failure',
  settings: onAzure(() => arm),
  async story(context) {
    arm.hold('cluster_create');
    arm.faults.operations_latest = 'missing';
    const retry_seconds = 5;
    arm.faults.next({
      method: 'PUT',
      path: paths.cluster,
      effect: refusals.inProgress('Updating', retry_seconds),
    });
    arm.faults.next({ method: 'PUT', path: paths.cluster, effect: refusals.throttled(retry_seconds) });
    const ids = [await allocateCluster(context, arm), await allocateCluster(context, arm)];
    const busyProgresses = await Promise.all(
      ids.map((id) =>
        waitForProgress(context, id, 'the time of the next try', (seen) => seen.retry_after_seconds !== undefined),
      ),
    );
    for (const seen of busyProgresses) {
      expect(seen).toMatchObject({ status: 'running', phase: creatingPhase, stalled: false });
      expect(seen.error).toBeUndefined();
      expect(seen.retry_after_seconds).toBeLessThanOrEqual(retry_seconds);
    }
    expect(busyProgresses.map(({ message }) => message).join('\n')).toMatch(
      /in progress[\s\S]*throttled|throttled[\s\S]*in progress/,
    );
    for (const [index, id] of ids.entries()) {
      // Azure reports no percentage here. Everything else is still reported.
      const after = await waitForProgress(context, id, 'the creation to continue', ({ message }) =>
        message.startsWith('AKS state'),
      );
      expect(after).toMatchObject({ phase: creatingPhase, step: 3, message: expect.stringMatching(/for \d+s$/) });
      expect(after.retry_after_seconds).toBeUndefined();
      expect(after.percent).toBeGreaterThanOrEqual(busyProgresses[index]?.percent ?? 100);
    }
    arm.release();
    for (const id of ids) await waitForAllocation(context, id, 'active');
    expect(arm.clustersCreated()).toBe(2);
  },
  counterTests: [
    {
      broken: 'a driver that treats "retry later" as a failure',
      composition: onAzure(() => arm, withoutRetries),
      fails: /for the time of the next try/,
    },
  ],
});
