/** Releases failed in an outage: one command brings them back, canary first, at a capped rate, and stops where the cause is still there. */
import { expect } from 'vitest';
import {
  askedToRelease,
  ended,
  expectCanaryFirst,
  expectPace,
  recover,
  statuses,
  targetsOf,
} from './support/recoveries.ts';
import { judging, scenario } from './support/scenario.ts';
import { stubbornMachines, stubbornPool } from './support/stubborn-machines.ts';

const few = 4;
const slowly = 60;

scenario({
  name: 'a recovery stops at its canary while the cause is there, and brings all back at its pace once it is gone',
  async story({ server, client, ledger, comes }) {
    await client.call('pool-put', { params: { pool: 'lab' }, body: stubbornPool });
    const machines = await stubbornMachines(server, 'lab', few);
    try {
      const becomes = (status: string) =>
        comes(`all to be ${status}`, async () => (await statuses(ledger))[status] === few);
      const ends = (id: string) =>
        comes('the recovery to end', async () => {
          const operation = await client.call('operation-get', { params: { id } });
          return ended(operation) ? operation : undefined;
        });
      for (let i = 0; i < few; i++) await client.call('allocation-create', { body: { pool: 'lab' } });
      await becomes('active');
      const { items } = await client.call('allocation-list', { query: {} });
      for (const { allocation_id } of items) await client.call('allocation-release', { params: { id: allocation_id } });
      await becomes('release_failed');

      const asked = { filter: { status: 'release_failed', pool: 'lab' }, per_minute: slowly };
      const preview = await client.call('fleet-recover', {
        body: { action: 'retry-release', reason: 'looking', dry_run: true, ...asked },
      });
      expect(preview).toMatchObject({ dry_run: true, matched: few, operation: null });
      expect(preview.first).toHaveLength(few);
      expect(await ledger.count('select 1 from recovery_targets')).toBe(0);

      const vain = await recover(client, asked);
      const stopped = await ends(vain);
      const untouched = (await targetsOf(ledger, vain)).slice(1);
      if (untouched.some(({ acted_ms }) => acted_ms !== null)) throw new Error('others than the canary were touched');
      expect(untouched.every(({ state, reason }) => state === 'skipped' && reason !== null)).toBe(true);
      expect(stopped).toMatchObject({
        status: 'failed',
        error: { code: 'recovery_stopped', owner_layer: 'node', step: 'canary' },
      });
      expect(stopped.error?.message).toMatch(
        /^the canary failed, 3 left untouched: alloc_\w+: release failed at step clean \(owner node\): no space left/,
      );
      expect(await askedToRelease(ledger, vain)).toEqual([{ allocation_id: preview.first[0], times: 1, actors: 1 }]);
      expect((await statuses(ledger)).release_failed).toBe(few);

      machines.relent();
      const useful = await recover(client, asked);
      expect(await ends(useful)).toMatchObject({
        status: 'succeeded',
        progress: { message: `${few} of ${few} recovered, 0 failed, canary held`, percent: 100 },
      });
      expect(await statuses(ledger)).toEqual({ released: few });
      const targets = await targetsOf(ledger, useful);
      expect(targets.map(({ state }) => state)).toEqual(Array.from({ length: few }, () => 'recovered'));
      expectCanaryFirst(targets);
      expectPace(targets, slowly);
    } finally {
      await machines.end();
    }
  },
  counters: [
    {
      broken: 'a recovery that goes on whatever fails',
      composition: judging((right) => ({
        nextOfRecovery: (facts) => right.nextOfRecovery({ ...facts, failed: 0 }),
      })),
      fails: /others than the canary were touched/,
    },
    {
      broken: 'a recovery that knows no pace',
      composition: judging((right) => ({
        nextOfRecovery: (facts) => ({ ...right.nextOfRecovery(facts), act: facts.failed > 0 ? 0 : facts.waiting }),
      })),
      fails: /came faster than/,
    },
  ],
});
