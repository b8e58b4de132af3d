/**
 * Releases failed in an outage: one command recovers them, canary first, at a limited rate, and
 * stops while the cause persists.
 */
import { expect, vi } from 'vitest';
import type * as recoveries from '../../../src/store/operations/recoveries.ts';
import {
  countReleaseRequests,
  expectCanaryFirst,
  expectPace,
  isOver,
  recover,
  statuses,
  targetsOf,
} from '../support/recoveries.ts';
import { scenario, whileBroken, withDeciders } from '../support/scenario.ts';
import { stubbornMachines, stubbornPool } from '../support/stubborn-machines.ts';

type Parts = Pick<typeof recoveries, 'skipTargets'>;
const wrong = vi.hoisted(() => ({}) as Partial<Parts>);
vi.mock(import('../../../src/store/operations/recoveries.ts'), async (original) => {
  const whole = await original();
  return { ...whole, skipTargets: (...given) => (wrong.skipTargets ?? whole.skipTargets)(...given) };
});

const few = 4;
const slowly = 60;

scenario({
  name: 'a recovery stops at its canary while the cause persists, and recovers all at its rate once it is gone',
  async story({ server, client, db, waitFor }) {
    await client.call('pool-put', { params: { pool: 'lab' }, body: stubbornPool });
    const machines = await stubbornMachines(server, 'lab', few);
    try {
      const waitForReleases = (status: string) =>
        waitFor(`all to be ${status}`, async () => (await statuses(db))[status] === few);
      const waitForEnd = (id: string) =>
        waitFor('the recovery to end', async () => {
          const operation = await client.call('operation-get', { params: { id } });
          return isOver(operation) ? operation : undefined;
        });
      for (let i = 0; i < few; i++) await client.call('allocation-create', { body: { pool: 'lab' } });
      await waitForReleases('active');
      const { items } = await client.call('allocation-list', { query: {} });
      for (const { allocation_id } of items) await client.call('allocation-release', { params: { id: allocation_id } });
      await waitForReleases('release_failed');

      const request = { filter: { status: 'release_failed', pool: 'lab' }, per_minute: slowly };
      const preview = await client.call('fleet-recover', {
        body: { action: 'retry-release', reason: 'looking', dry_run: true, ...request },
      });
      expect(preview).toMatchObject({ dry_run: true, matched: few, operation: null });
      expect(preview.first).toHaveLength(few);
      expect(await db.countRows('select 1 from recovery_targets')).toBe(0);

      const vain = await recover(client, request);
      const stopped = await waitForEnd(vain);
      const [canary, ...untouched] = await targetsOf(db, vain);
      expect(canary).toMatchObject({ allocation_id: preview.first[0], state: 'failed', reason: expect.any(String) });
      expect(untouched).toHaveLength(few - 1);
      if (untouched.some(({ acted_ms }) => acted_ms !== null)) throw new Error('others than the canary were touched');
      expect(untouched.every(({ state, reason }) => state === 'skipped' && reason !== null)).toBe(true);
      expect(stopped).toMatchObject({
        status: 'failed',
        error: { code: 'recovery_stopped', owner_layer: 'node', step: 'canary' },
      });
      expect(await countReleaseRequests(db, vain)).toEqual([{ allocation_id: preview.first[0], times: 1, actors: 1 }]);
      expect((await statuses(db)).release_failed).toBe(few);

      machines.relent();
      const useful = await recover(client, request);
      expect(await waitForEnd(useful)).toMatchObject({
        status: 'succeeded',
        progress: { percent: 100, parts: [{ state: 'recovered', tone: 'ok', count: few }] },
      });
      expect(await statuses(db)).toEqual({ released: few });
      const targets = await targetsOf(db, useful);
      expect(targets.map(({ state }) => state)).toEqual(Array.from({ length: few }, () => 'recovered'));
      expectCanaryFirst(targets);
      expectPace(targets, slowly);
    } finally {
      await machines.end();
    }
  },
  counters: [
    {
      broken: 'a recovery that continues after a failure',
      composition: withDeciders((right) => ({
        nextRecoveryMove: (facts) => right.nextRecoveryMove({ ...facts, failed: 0 }),
      })),
      fails: /others than the canary were touched/,
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
  name: 'a cancelled recovery touches no more machines, and others quarantine and retire many',
  async story({ server, client, db, waitFor }) {
    await client.call('pool-put', { params: { pool: 'yard' }, body: stubbornPool });
    const machines = await stubbornMachines(server, 'yard', few);
    machines.relent();
    const endOf = (id: string) =>
      waitFor('the recovery to end', async () => {
        const operation = await client.call('operation-get', { params: { id } });
        return isOver(operation) ? operation : undefined;
      });
    const standing = async () => {
      const { items } = await client.call('node-list', { query: { pool: 'yard' } });
      return items.map(({ status }) => status).sort();
    };
    const aside = { action: 'quarantine', reason: 'the rack is moved' } as const;
    try {
      await waitFor('all to be ready', async () => (await standing()).every((status) => status === 'ready'));
      const filter = { status: 'ready', pool: 'yard' } as const;
      const slow = await recover(client, { ...aside, filter, per_minute: 2 });
      await waitFor('the canary to be set aside', async () => (await targetsOf(db, slow))[0]?.state === 'recovered');
      await client.call('operation-cancel', { params: { id: slow } });
      expect((await endOf(slow)).status).toBe('cancelled');
      const [, ...rest] = await targetsOf(db, slow);
      expect(rest, 'targets whose turn had not come').toMatchObject(
        rest.map(() => ({ state: 'skipped', reason: expect.any(String), acted_ms: null })),
      );
      expect(await standing()).toEqual(['quarantined', 'ready', 'ready', 'ready']);

      const quick = await recover(client, { ...aside, filter, per_minute: 1200 });
      expect(await endOf(quick)).toMatchObject({ status: 'succeeded', progress: { percent: 100 } });
      expect(await targetsOf(db, quick)).toHaveLength(few - 1);
      expect(await standing()).toEqual(Array.from({ length: few }, () => 'quarantined'));
      const gone = { action: 'retire', reason: 'the rack is sold', per_minute: 1200 } as const;
      const away = await recover(client, { ...gone, filter: { status: 'quarantined', pool: 'yard' } });
      expect(await endOf(away)).toMatchObject({
        status: 'succeeded',
        progress: { parts: [{ state: 'recovered', tone: 'ok', count: few }] },
      });
      expect(await db.countRows("select 1 from nodes where status = 'retired'")).toBe(few);
      expect(await db.countRows("select 1 from evidence where kind = 'proof.revoked'")).toBe(few);
    } finally {
      await machines.end();
    }
  },
  counters: [
    {
      broken: 'a recovery that does not report those it leaves',
      around: whileBroken<Parts>(wrong, { skipTargets: async () => {} }),
      fails: /targets whose turn had not come/,
    },
  ],
});
