/**
 * The deadline passes, the machine fails and registers a little later. The machine is rescued, and
 * viewers of the stream see it recover.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { secondsBetween } from '../../../src/base/clock.ts';
import { type EventReader, openEvents } from '../../api/support/event-reader.ts';
import { allocate } from '../../support/allocations.ts';
import { changesOf, localPool, samplesOf, waitForAllocation, waitForNode } from '../support/machines.ts';
import { scenario, withDeciders, withoutSweep } from '../support/scenario.ts';

/** Long enough that a busy machine launches the process before the deadline. */
const provision_seconds = 6;
/** The time from the verdict to the end of the machine's set-up. */
const late_by_seconds = 0.4;

/** A file that the machine's set-up waits for. */
async function createStartSignal(): Promise<{ path: string; fire(): Promise<void> }> {
  const dir = await mkdtemp(join(tmpdir(), 'slipway-scenario-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  const path = join(dir, 'go');
  return { path, fire: () => writeFile(path, '') };
}

/** The statuses that a viewer of the allocation sees, without repeats. */
const statusesSeen = (viewer: EventReader): string[] =>
  viewer.events
    .flatMap(({ name, data }) => (name === 'allocation' ? [String(data.status)] : []))
    .filter((status, index, all) => status !== all[index - 1]);

scenario({
  name: 'a machine that registers just after its deadline',
  async story(context) {
    const startSignal = await createStartSignal();
    await localPool(context, 'workspaces', {
      spec: { setup: `while [ ! -e ${startSignal.path} ]; do sleep 0.05; done; sleep ${late_by_seconds}` },
      budgets: { provision_seconds },
    });
    const viewer = await openEvents(context.server.url, context.server.token, '?topics=allocations&pool=workspaces');
    onTestFinished(() => viewer.close());
    const id = await allocate(context.client, 'workspaces');

    const failed = await waitForAllocation(context, id, 'failed');
    expect(failed.verdict?.rule).toBe('node-failed');
    await context.waitFor('the banner to show the failure', () => statusesSeen(viewer).includes('failed'));
    await startSignal.fire();

    const active = await waitForAllocation(context, id, 'active');
    expect(active).toMatchObject({ node_id: failed.node_id, verdict: null });
    await context.waitFor('the banner to recover', () => statusesSeen(viewer).at(-1) === 'active');
    expect(statusesSeen(viewer).filter((status) => status === 'failed' || status === 'active')).toEqual([
      'failed',
      'active',
    ]);
    expect(viewer.ended(), 'the stream was never closed').toBe(false);

    const node = await waitForNode(context, active.node_id ?? '', 'ready');
    const changes = await changesOf(context, node.node_id);
    expect(changes.map(({ to, by }) => `${to} by ${by}`)).toEqual([
      'provisioning by node-provision',
      'failed by provision-deadline',
      'starting by late-registration',
      'ready by claim-ready',
    ]);
    const [launched, failure, rescued] = changes;
    if (!launched || !failure || !rescued) throw new Error('the timeline lacks a change');
    expect(secondsBetween(launched.at, failure.at)).toBeGreaterThanOrEqual(provision_seconds);
    expect(failure.evidence).toMatchObject({ budget_seconds: provision_seconds, budget_source: 'pool' });
    const lateness = secondsBetween(failure.at, rescued.at);
    expect(lateness).toBeGreaterThanOrEqual(late_by_seconds);
    expect(rescued.reason).toContain(`${lateness.toFixed(1)} s`);

    const [provision, start] = await samplesOf(context, node.node_id);
    expect(provision).toMatchObject({ phase: 'provision', outcome: 'late', budget_seconds: provision_seconds });
    expect(provision?.lateness_seconds).toBeCloseTo(lateness, 2);
    expect(provision?.seconds).toBeCloseTo(secondsBetween(launched.at, rescued.at), 2);
    expect(start).toMatchObject({ phase: 'start', outcome: 'completed' });
  },
  counterTests: [
    {
      broken: 'failed machines fenced when they register',
      composition: withDeciders(({ effectOfRegistration }) => ({
        effectOfRegistration: (node, now) => (node.status === 'failed' ? 'fenced' : effectOfRegistration(node, now)),
      })),
      fails: /waited .* for allocation to be active/,
      patience_seconds: provision_seconds + late_by_seconds + 3,
    },
    {
      broken: 'no provision-deadline rule',
      composition: withoutSweep('provision-deadline'),
      fails: /waited .* for allocation to be failed/,
      patience_seconds: provision_seconds + 2,
    },
  ],
});
