/**
 * Releases failed in an outage. One command recovers them, canary first and at a limited rate, and
 * stops while the cause persists.
 */
import { expect, vi } from 'vitest';
import type * as recoveries from '../../../src/store/operations/recoveries.ts';
import {
  countReleaseRequests,
  countStatuses,
  expectCanaryFirst,
  expectPace,
  isOver,
  readTargets,
  recover,
} from '../support/recoveries.ts';
import { scenario, whileBroken, withDeciders } from '../support/scenario.ts';
import { stubbornMachines, stubbornPool } from '../support/stubborn-machines.ts';

type Parts = Pick<typeof recoveries, 'skipTargets'>;
const brokenParts = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/store/operations/recoveries.ts'), async (original) => {
  const originalModule = await original();
  return {
    ...originalModule,
    skipTargets: (...args) => (brokenParts.skipTargets ?? originalModule.skipTargets)(...args),
  };
});

const machineCount = 4;
const perMinute = 60;

scenario({
  name: 'a recovery stops at its canary while the cause persists, and recovers all at its rate once it is gone',
  async story({ server, client, db, waitFor }) {
    await client.call('pool-put', { params: { pool: 'lab' }, body: stubbornPool });
    const machines = await stubbornMachines(server, 'lab', machineCount);
    try {
      const waitForReleases = (status: string) =>
        waitFor(`all to be ${status}`, async () => (await countStatuses(db))[status] === machineCount);
      const waitForEnd = (id: string) =>
        waitFor('the recovery to end', async () => {
          const operation = await client.call('operation-get', { params: { id } });
          return isOver(operation) ? operation : undefined;
        });
      for (let i = 0; i < machineCount; i++) await client.call('allocation-create', { body: { pool: 'lab' } });
      await waitForReleases('active');
      const { items } = await client.call('allocation-list', { query: {} });
      for (const { allocation_id } of items) await client.call('allocation-release', { params: { id: allocation_id } });
      await waitForReleases('release_failed');

      const request = { filter: { status: 'release_failed', pool: 'lab' }, per_minute: perMinute };
      const preview = await client.call('fleet-recover', {
        body: { action: 'retry-release', reason: 'looking', dry_run: true, ...request },
      });
      expect(preview).toMatchObject({ dry_run: true, matched: machineCount, operation: null });
      expect(preview.first).toHaveLength(machineCount);
      expect(await db.countRows('select 1 from recovery_targets')).toBe(0);

      const stoppedRecovery = await recover(client, request);
      const stoppedOperation = await waitForEnd(stoppedRecovery);
      const [canary, ...untouched] = await readTargets(db, stoppedRecovery);
      expect(canary).toMatchObject({ allocation_id: preview.first[0], state: 'failed', reason: expect.any(String) });
      expect(untouched).toHaveLength(machineCount - 1);
      if (untouched.some(({ acted_ms }) => acted_ms !== null))
        throw new Error('a target other than the canary was touched');
      expect(untouched.every(({ state, reason }) => state === 'skipped' && reason !== null)).toBe(true);
      expect(stoppedOperation).toMatchObject({
        status: 'failed',
        error: { code: 'recovery_stopped', owner_layer: 'node', step: 'canary' },
      });
      expect(await countReleaseRequests(db, stoppedRecovery)).toEqual([
        { allocation_id: preview.first[0], times: 1, actors: 1 },
      ]);
      expect((await countStatuses(db)).release_failed).toBe(machineCount);

      machines.relent();
      const secondRecovery = await recover(client, request);
      expect(await waitForEnd(secondRecovery)).toMatchObject({
        status: 'succeeded',
        progress: { percent: 100, parts: [{ state: 'recovered', tone: 'ok', count: machineCount }] },
      });
      expect(await countStatuses(db)).toEqual({ released: machineCount });
      const targets = await readTargets(db, secondRecovery);
      expect(targets.map(({ state }) => state)).toEqual(Array.from({ length: machineCount }, () => 'recovered'));
      expectCanaryFirst(targets);
      expectPace(targets, perMinute);
    } finally {
      await machines.end();
    }
  },
  counterTests: [
    {
      broken: 'a recovery that continues after a failure',
      composition: withDeciders((right) => ({
        nextRecoveryMove: (facts) => right.nextRecoveryMove({ ...facts, failed: 0 }),
      })),
      fails: /a target other than the canary was touched/,
    },
    {
      broken: 'a recovery without a rate limit',
      composition: withDeciders((right) => ({
        nextRecoveryMove: (facts) => ({ ...right.nextRecoveryMove(facts), act: facts.failed > 0 ? 0 : facts.waiting }),
      })),
      fails: /came faster than/,
    },
  ],
});

scenario({
  name: 'a cancelled recovery touches no more machines, and later ones quarantine and retire all',
  async story({ server, client, db, waitFor }) {
    await client.call('pool-put', { params: { pool: 'yard' }, body: stubbornPool });
    const machines = await stubbornMachines(server, 'yard', machineCount);
    machines.relent();
    const waitForEnd = (id: string) =>
      waitFor('the recovery to end', async () => {
        const operation = await client.call('operation-get', { params: { id } });
        return isOver(operation) ? operation : undefined;
      });
    const readStatuses = async () => {
      const { items } = await client.call('node-list', { query: { pool: 'yard' } });
      return items.map(({ status }) => status).sort();
    };
    const quarantineRequest = { action: 'quarantine', reason: 'the rack is moved' } as const;
    try {
      await waitFor('all to be ready', async () => (await readStatuses()).every((status) => status === 'ready'));
      const filter = { status: 'ready', pool: 'yard' } as const;
      const slowRecovery = await recover(client, { ...quarantineRequest, filter, per_minute: 2 });
      await waitFor(
        'the canary to be quarantined',
        async () => (await readTargets(db, slowRecovery))[0]?.state === 'recovered',
      );
      await client.call('operation-cancel', { params: { id: slowRecovery } });
      expect((await waitForEnd(slowRecovery)).status).toBe('cancelled');
      const [, ...remainingTargets] = await readTargets(db, slowRecovery);
      expect(remainingTargets, 'targets after the cancellation').toMatchObject(
        remainingTargets.map(() => ({ state: 'skipped', reason: expect.any(String), acted_ms: null })),
      );
      expect(await readStatuses()).toEqual(['quarantined', 'ready', 'ready', 'ready']);

      const quick = await recover(client, { ...quarantineRequest, filter, per_minute: 1200 });
      expect(await waitForEnd(quick)).toMatchObject({ status: 'succeeded', progress: { percent: 100 } });
      expect(await readTargets(db, quick)).toHaveLength(machineCount - 1);
      expect(await readStatuses()).toEqual(Array.from({ length: machineCount }, () => 'quarantined'));
      const retireRequest = { action: 'retire', reason: 'the rack is sold', per_minute: 1200 } as const;
      const retirement = await recover(client, { ...retireRequest, filter: { status: 'quarantined', pool: 'yard' } });
      expect(await waitForEnd(retirement)).toMatchObject({
        status: 'succeeded',
        progress: { parts: [{ state: 'recovered', tone: 'ok', count: machineCount }] },
      });
      expect(await db.countRows("select 1 from nodes where status = 'retired'")).toBe(machineCount);
      expect(await db.countRows("select 1 from evidence where kind = 'proof.revoked'")).toBe(machineCount);
    } finally {
      await machines.end();
    }
  },
  counterTests: [
    {
      broken: 'a recovery that does not mark skipped targets',
      around: whileBroken<Parts>(brokenParts, { skipTargets: async () => {} }),
      fails: /targets after the cancellation/,
    },
  ],
});
