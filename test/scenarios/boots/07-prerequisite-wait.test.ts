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
/** Longer than two boot budgets, so a boot that counted the queue would overrun its budget. */
const queued_seconds = 5 * (provision_seconds / 2);

let ensureCall: { target: EnsureTarget; sinceMs: number } | undefined;

function requireEnsureCall(): NonNullable<typeof ensureCall> {
  if (!ensureCall) throw new Error('the driver was never called');
  return ensureCall;
}

/** A provider that queues, then grants. If `isSilent`, it does not report the wait. */
const provider = (isSilent: boolean): Pick<Composition, 'drivers'> => ({
  drivers: (built) =>
    new Map([
      ...built,
      [
        'simulated',
        simulatedDriver({
          ensure: async (target) => {
            ensureCall ??= { target, sinceMs: systemClock.monotonicMs() };
            const waitedSeconds = (systemClock.monotonicMs() - ensureCall.sinceMs) / 1000;
            if (waitedSeconds >= queued_seconds) return { outcome: 'done', message: 'capacity was granted' };
            return {
              outcome: 'wait',
              retry_seconds: 0.2,
              message: 'QuotaExceeded: in the queue',
              ...(!isSilent && { waits_for: 'capacity' as const }),
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
    ensureCall = undefined;
    await context.client.call('pool-put', {
      params: { pool: 'scarce' },
      body: { driver: 'simulated', budgets: { provision_seconds, start_seconds: 60, rescue_seconds: 1 } },
    });
    const id = await allocate(context.client, 'scarce');
    const readAllocation = () => context.client.call('allocation-get', { params: { id } });
    const waitingNode = await context.waitFor('the wait for capacity to be on the node', async () => {
      const { node_id } = await readAllocation();
      const node = node_id && (await context.client.call('node-get', { params: { id: node_id } }));
      return node && node.waiting_for === 'capacity' ? node : undefined;
    });
    const explanation = await context.client.call('node-explain', { params: { id: waitingNode.node_id } });
    expect(explanation.waiting_for).toContain('capacity');
    const grantedNode = await context.waitFor('the capacity to be granted', async () => {
      const node = await context.client.call('node-get', { params: { id: waitingNode.node_id } });
      expect(node.status, 'the status while it waits for capacity').toBe('provisioning');
      return node.waiting_for === null ? node : undefined;
    });
    const deadlineSeconds = secondsBetween(new Date(grantedNode.created_at), new Date(grantedNode.deadline_at ?? ''));
    expect(deadlineSeconds).toBeGreaterThanOrEqual(queued_seconds + provision_seconds);
    const { target } = requireEnsureCall();
    const machine = await startMachine(context.server.url, { enrollment_token: target.bootstrap.enrollment_token });
    const hasMessage = async (message: string) => (await readAllocation()).progress?.message === message || undefined;
    await machine.call('agent-heartbeat', { body: { status: 'starting', boot_stage: 'mounting' } });
    await context.waitFor('the boot stage in the progress', () => hasMessage('Boot stage mounting'));
    await machine.beat('ready');
    await context.waitFor('the allocation to be active', async () =>
      (await readAllocation()).status === 'active' ? true : undefined,
    );
    const [sample] = await context.db.query<{ seconds: number; outcome: string }>(
      `select seconds, outcome from boot_samples where node_id = $1 and phase = 'provision'`,
      [waitingNode.node_id],
    );
    expect(sample?.outcome).toBe('completed');
    expect(sample?.seconds, 'the sample counts the boot, not the queue').toBeLessThan(queued_seconds);
  },
  counterTests: [
    {
      broken: 'a wait for capacity that counts as booting',
      composition: provider(true),
      fails: /wait for capacity to be on the node/,
    },
  ],
});
