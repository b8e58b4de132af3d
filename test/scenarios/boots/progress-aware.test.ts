/**
 * In a progress-aware pool, a boot that advances may exceed its budget up to a ceiling, and one
 * that stalls fails sooner.
 */
import { expect } from 'vitest';
import { secondsBetween, systemClock } from '../../../src/base/clock.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { allocate } from '../../support/allocations.ts';
import { type ScenarioContext, scenario, withDeciders } from '../support/scenario.ts';
import { simulatedDriver } from '../support/simulated-driver.ts';

/** A provider that shows new states for this long, and then the same state forever. */
const provider = (advancesForSeconds: number): Pick<Composition, 'drivers'> => ({
  drivers(built) {
    let sinceMs: number | undefined;
    const ensure = async () => {
      sinceMs ??= systemClock.monotonicMs();
      const seconds = Math.min(advancesForSeconds, (systemClock.monotonicMs() - sinceMs) / 1000);
      const parts = [
        { name: 'cluster', kind: 'pool', state: `stage ${Math.ceil(seconds / 0.3)}`, tone: 'busy' as const },
      ];
      return { outcome: 'wait' as const, retry_seconds: 0.1, message: 'building', parts };
    };
    return new Map([...built, ['simulated', simulatedDriver({ ensure })]]);
  },
});

async function waitForFailure(
  context: ScenarioContext,
  budgets: { provision_seconds: number; silence_seconds: number },
) {
  await context.client.call('pool-put', {
    params: { pool: 'progress-aware' },
    body: { driver: 'simulated', budgets: { ...budgets, progress_aware: true, rescue_seconds: 600 } },
  });
  const id = await allocate(context.client, 'progress-aware');
  const failed = await context.waitFor('the boot to fail', async () => {
    const allocation = await context.client.call('allocation-get', { params: { id } });
    return allocation.status === 'failed' ? allocation : undefined;
  });
  const node = await context.client.call('node-get', { params: { id: failed.node_id ?? '' } });
  expect(node.verdict).toMatchObject({ rule: 'provision-deadline' });
  return secondsBetween(new Date(node.created_at), new Date(node.status_since));
}

const ignoreProgress = withDeciders(() => ({ deadlineAfterAdvance: () => undefined }));

scenario({
  name: 'a boot that advances may take up to twice its budget',
  settings: provider(60),
  async story(context) {
    // Long enough that even on a busy machine a verdict at the budget comes before twice the
    // budget.
    const provision_seconds = 4;
    const waitedSeconds = await waitForFailure(context, { provision_seconds, silence_seconds: 1 });
    expect(waitedSeconds, 'the boot failed at its budget').toBeGreaterThanOrEqual(2 * provision_seconds);
  },
  counterTests: [{ broken: 'ignored progress', composition: ignoreProgress, fails: /failed at its budget/ }],
});

scenario({
  name: 'a boot that stalls fails long before its budget',
  settings: provider(0.5),
  async story(context) {
    const provision_seconds = 60;
    const waitedSeconds = await waitForFailure(context, { provision_seconds, silence_seconds: 1 });
    expect(waitedSeconds).toBeLessThan(provision_seconds / 2);
  },
  counterTests: [{ broken: 'ignored progress', composition: ignoreProgress, fails: /waited .* for the boot to fail/ }],
});
