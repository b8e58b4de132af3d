/**
 * A failed publication of progress only affects viewers. The machine still comes up.
 */
import { expect, vi } from 'vitest';
import type { Driver } from '../../../src/drivers/driver.ts';
import type * as tries from '../../../src/engine/tries.ts';
import { localPool, waitForAllocation } from '../support/machines.ts';
import { scenario, whileBroken } from '../support/scenario.ts';

type Parts = Pick<typeof tries, 'notify'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/engine/tries.ts'), async (original) => {
  const originalModule = await original();
  return { ...originalModule, notify: (...args) => (brokenParts.notify ?? originalModule.notify)(...args) };
});

const providerMessage = 'the provider is working';

/** A driver that reports a message before it launches, so that there is something to publish. */
function reportsFirst(driver: Driver): Driver {
  let hasReported = false;
  const ensure: Driver['ensure'] = async (target) => {
    if (hasReported) return driver.ensure(target);
    hasReported = true;
    return { outcome: 'wait', retry_seconds: 0.1, message: providerMessage };
  };
  return { ...driver, ensure };
}

scenario({
  name: 'progress that the store refuses',
  settings: {
    drivers: (built) =>
      new Map([...built].map(([name, driver]) => [name, name === 'local' ? reportsFirst(driver) : driver])),
  },
  async story(context) {
    const { client, db } = context;
    // The store rejects all progress of operations.
    await db.query(`alter table operations add constraint mute check (progress ->> 'message' is null) not valid`);
    await localPool(context, 'mute');
    const { allocation, operation } = await client.call('allocation-create', { body: { pool: 'mute' } });
    await waitForAllocation(context, allocation.allocation_id, 'active', 'failed');
    const endedOperation = await context.waitFor('the operation to end', async () => {
      const found = await client.call('operation-get', { params: { id: operation?.workflow_id ?? '' } });
      return found.finished_at ? found : undefined;
    });
    expect(endedOperation.status, 'the status of the operation').toBe('succeeded');
    expect(endedOperation.steps.map(({ status }) => status)).toEqual(['done', 'done', 'done', 'done']);
    // Row and evidence are written together, so the message is in neither.
    expect(endedOperation.progress.message).toBe('');
    expect(await db.countEvidence(allocation.allocation_id, 'operation.progress')).toBe(0);

    await db.query('alter table operations drop constraint mute');
    await client.call('allocation-release', { params: { id: allocation.allocation_id } });
    await waitForAllocation(context, allocation.allocation_id, 'released');
    await context.waitFor('progress after the constraint is dropped', async () =>
      (await db.countEvidence(allocation.allocation_id, 'operation.progress')) > 0 ? true : undefined,
    );
  },
  counterTests: [
    {
      broken: 'an engine that fails on unpublished progress',
      around: whileBroken<Parts>(brokenParts, { notify: async (_, __, call) => call() }),
      fails: /for allocation to be active or failed/,
    },
  ],
});
