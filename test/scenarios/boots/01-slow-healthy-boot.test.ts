/**
 * A boot that takes most of its budget succeeds; under an operator's shorter budget the same boot
 * is killed.
 */
import { expect } from 'vitest';
import { secondsBetween } from '../../../src/base/clock.ts';
import { allocate } from '../../support/allocations.ts';
import { changesOf, localPool, nodeOf, samplesOf, waitForAllocation, waitForNode } from '../support/machines.ts';
import { scenario, withDeciders } from '../support/scenario.ts';

/**
 * The measured boot and its budgets, sped up sixty times. The unused part of the budget is enough
 * for a busy host.
 */
const scaled = (measured_seconds: number) => measured_seconds / 60;
const boot_stages = [
  { name: 'before-script', seconds: scaled(42) },
  { name: 'image-pull', seconds: scaled(107) },
  { name: 'set-up', seconds: scaled(274) },
];
const boot_seconds = boot_stages.reduce((sum, stage) => sum + stage.seconds, 0);
const patient_seconds = scaled(720);
const hasty_seconds = scaled(400);

scenario({
  name: 'a slow but healthy boot',
  async story(context) {
    // Without a rescue window, the late boot is not rescued.
    const budgets = { rescue_seconds: 0 };
    await localPool(context, 'patient', {
      spec: { boot_stages },
      budgets: { ...budgets, provision_seconds: patient_seconds },
    });
    await localPool(context, 'hasty', {
      spec: { boot_stages },
      budgets: { ...budgets, provision_seconds: hasty_seconds },
    });
    const slowId = await allocate(context.client, 'patient');
    const killedId = await allocate(context.client, 'hasty');

    const up = await waitForAllocation(context, slowId, 'active', 'failed');
    expect(up.status, 'the slow boot').toBe('active');
    const failed = await waitForAllocation(context, killedId, 'active', 'failed');
    expect(failed.status, 'the same boot with a shorter budget').toBe('failed');

    const node = await nodeOf(context, up.node_id ?? '');
    expect((await changesOf(context, node.node_id)).map((change) => change.by)).toEqual([
      'node-provision',
      'registration',
      'claim-ready',
    ]);
    const [sample] = await samplesOf(context, node.node_id);
    expect(sample).toMatchObject({
      phase: 'provision',
      outcome: 'completed',
      budget_seconds: patient_seconds,
      budget_source: 'pool',
    });
    expect(sample?.seconds).toBeGreaterThan(boot_seconds);
    expect(sample?.seconds).toBeLessThan(patient_seconds);
    const took = secondsBetween(new Date(node.created_at), new Date(node.registered_at ?? ''));
    expect(sample?.seconds).toBeCloseTo(took, 2);

    const { false_kills, current } = await context.client.call('pool-what-if', {
      params: { pool: 'patient' },
      body: { budget_seconds: hasty_seconds },
    });
    expect(false_kills, 'boots that the shorter budget would have failed').toMatchObject([
      { node_id: node.node_id, seconds: sample?.seconds, rescued: false },
    ]);
    expect(current).toEqual({ budget_seconds: patient_seconds, budget_source: 'pool', false_kill_count: 0 });

    expect(failed.reason).toMatch(/^provisioning timed out.* \(waited \d+ s, budget from pool\)$/);
    const retired = await waitForNode(context, failed.node_id ?? '', 'retired');
    expect((await changesOf(context, retired.node_id)).map((change) => change.by).slice(0, 3)).toEqual([
      'node-provision',
      'provision-deadline',
      'rescue-over',
    ]);
    expect(await samplesOf(context, retired.node_id)).toMatchObject([
      { phase: 'provision', outcome: 'timed_out', budget_seconds: hasty_seconds },
    ]);
  },
  counterTests: [
    {
      broken: 'a hard-coded budget',
      composition: withDeciders(({ resolveBudget }) => ({
        resolveBudget: (question) =>
          question.phase === 'provision' ? { seconds: hasty_seconds, source: 'default' } : resolveBudget(question),
      })),
      fails: /the slow boot: expected 'failed' to be 'active'/,
    },
    {
      broken: "the operator's budget ignored",
      composition: withDeciders(({ resolveBudget }) => ({
        resolveBudget: (question) =>
          resolveBudget(question.phase === 'provision' ? { ...question, pool: {} } : question),
      })),
      fails: /the same boot with a shorter budget: expected 'active' to be 'failed'/,
    },
  ],
});
