/**
 * Waiting in the provider's quota queue does not use up the boot budget: the clock starts when
 * capacity is granted.
 */
import { expect } from 'vitest';
import { secondsBetween, systemClock } from '../../../src/base/clock.ts';
import type { EnsureTarget } from '../../../src/drivers/driver.ts';
import type { Composition } from '../../../src/server/opening.ts';
import { startMachine } from '../../api/support/machine.ts';
import { allocate } from '../../support/allocations.ts';
import { scenario } from '../support/scenario.ts';
import { simulatedDriver } from '../support/simulated-driver.ts';

/** Longer than a busy machine takes from the grant to the registration. */
const provision_seconds = 5;
/** As many boot budgets as in the incident: 300 s against 60 s. */
const queued_seconds = 5 * (provision_seconds / 2);

let ensured: { target: EnsureTarget; sinceMs: number } | undefined;

function requireEnsured(): NonNullable<typeof ensured> {
  if (!ensured) throw new Error('the driver was never called');
  return ensured;
}

/** A provider that queues, then grants. With `silently` it does not report that it is waiting. */
const provider = (silently: boolean): Pick<Composition, 'drivers'> => ({
  drivers: (built) =>
    new Map([
      ...built,
      [
        'simulated',
        simulatedDriver({
          ensure: async (target) => {
            ensured ??= { target, sinceMs: systemClock.monotonicMs() };
            const waited = (systemClock.monotonicMs() - ensured.sinceMs) / 1000;
            if (waited >= queued_seconds) return { outcome: 'done', message: 'capacity was granted' };
            return {
              outcome: 'wait',
              retry_seconds: 0.2,
              message: 'QuotaExceeded: in the queue',
              ...(!silently && { waits_for: 'capacity' as const }),
            };
          },
        }),
      ],
    ]),
});

scenario({
  name: 'time in a quota queue is not boot time',
  settings: provider(false),
  async story(context) {
    ensured = undefined;
    await context.client.call('pool-put', {
      params: { pool: 'scarce' },
      body: { driver: 'simulated', budgets: { provision_seconds, start_seconds: 60, rescue_seconds: 1 } },
    });
    const id = await allocate(context.client, 'scarce');
    const allocationNow = () => context.client.call('allocation-get', { params: { id } });
    const waiting = await context.waitFor('the wait for capacity to be on the node', async () => {
      const { node_id } = await allocationNow();
      const node = node_id && (await context.client.call('node-get', { params: { id: node_id } }));
      return node && node.waiting_for === 'capacity' ? node : undefined;
    });
    const explanation = await context.client.call('node-explain', { params: { id: waiting.node_id } });
    expect(explanation.waiting_for).toContain('capacity');
    const granted = await context.waitFor('the capacity to be granted', async () => {
      const node = await context.client.call('node-get', { params: { id: waiting.node_id } });
      expect(node.status, 'it fails while it only waits').toBe('provisioning');
      return node.waiting_for === null ? node : undefined;
    });
    const grantedAfter = secondsBetween(new Date(granted.created_at), new Date(granted.deadline_at ?? ''));
    expect(grantedAfter).toBeGreaterThanOrEqual(queued_seconds + provision_seconds);
    const { target } = requireEnsured();
    const machine = await startMachine(context.server.url, { enrollment_token: target.bootstrap.enrollment_token });
    const hasMessage = async (message: string) => (await allocationNow()).progress?.message === message || undefined;
    await machine.call('agent-heartbeat', { body: { status: 'starting', boot_stage: 'mounting' } });
    await context.waitFor('its boot stage in the progress', () => hasMessage('Boot stage mounting'));
    await machine.beat('ready');
    await context.waitFor('the allocation to be active', async () =>
      (await allocationNow()).status === 'active' ? true : undefined,
    );
    const [sample] = await context.db.query<{ seconds: number; outcome: string }>(
      `select seconds, outcome from boot_samples where node_id = $1 and phase = 'provision'`,
      [waiting.node_id],
    );
    expect(sample?.outcome).toBe('completed');
    expect(sample?.seconds, 'the sample counts the boot, not the queue').toBeLessThan(queued_seconds);
  },
  counters: [
    {
      broken: 'a wait for capacity that counts as booting',
      composition: provider(true),
      fails: /wait for capacity to be on the node/,
    },
  ],
});
