/** Tests that operations of dead replicas are resumed, but not while a restoration is open. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { listUnfinishedReplicas } from '../../store/operations/replicas.ts';
import type { SweepServices } from '../runner/services.ts';
import { type RuleFixture, ruleFixture } from '../testing/rule-fixture.ts';
import { replicaTakeover } from './replica-takeover.ts';

let fixture: RuleFixture;
beforeEach(async () => {
  fixture = ruleFixture(await testDatabase());
});
afterEach(() => fixture.close());

test('after a restore dead replicas are declared dead, and their operations wait for its end', async () => {
  await fixture.markStored(fixture.at(0));
  await fixture.markStored(fixture.at(-3600), 'rep_before');
  let isOpen = true;
  const recover = vi.fn(async (ids: string[]) => ids.length);
  const { run, runsAfterRestore } = replicaTakeover({
    ...fixture.services,
    engine: { executorsWithRuns: async () => ['rep_before'], recover } as unknown as SweepServices['engine'],
    restoration: { isObserving: () => isOpen },
    isProcessAlive: () => true,
  });
  expect(runsAfterRestore).toBe(true);
  expect(await run(fixture.at(1))).toEqual({ decided: 0 });
  expect(recover).not.toHaveBeenCalled();
  expect((await listUnfinishedReplicas(fixture.db)).map(({ replica_id }) => replica_id)).toEqual(['rep_test']);
  isOpen = false;
  expect(await run(fixture.at(2))).toEqual({ decided: 1 });
  expect(recover).toHaveBeenCalledExactlyOnceWith(['rep_before']);
});

test('after a jump of the clock an expired lease is no sign of death, but a missing process is', async () => {
  await fixture.markStored(fixture.at(0));
  await fixture.markStored(fixture.at(-3600), 'rep_other');
  let isClockSettled = false;
  let isAlive = true;
  const { run } = replicaTakeover({
    ...fixture.services,
    host: 'host',
    engine: { executorsWithRuns: async () => [] } as unknown as SweepServices['engine'],
    restoration: { isObserving: () => false },
    ingest: { ...fixture.services.ingest, isClockSettled: () => isClockSettled },
    isProcessAlive: () => isAlive,
  });
  const listNames = async () => (await listUnfinishedReplicas(fixture.db)).map(({ replica_id }) => replica_id);
  await run(fixture.at(1));
  expect((await listNames()).sort()).toEqual(['rep_other', 'rep_test']);
  isAlive = false;
  await run(fixture.at(2));
  expect(await listNames()).toEqual(['rep_test']);

  isAlive = true;
  isClockSettled = true;
  await fixture.markStored(fixture.at(-3600), 'rep_third');
  await run(fixture.at(3));
  expect(await listNames()).toEqual(['rep_test']);
});

describe('an expired lease is no sign of death until its holder could renew it', () => {
  const takeover = () =>
    replicaTakeover({
      ...fixture.services,
      engine: { executorsWithRuns: async () => [] } as unknown as SweepServices['engine'],
      restoration: { isObserving: () => false },
      isProcessAlive: () => true,
    });
  const listNames = async () => (await listUnfinishedReplicas(fixture.db)).map(({ replica_id }) => replica_id).sort();
  const setLease = (id: string, seconds: number) =>
    fixture.db.query('update replicas set lease_until = $2 where replica_id = $1', [id, fixture.at(seconds)]);
  const both = ['rep_other', 'rep_test'];
  beforeEach(async () => {
    for (const id of both) await fixture.markStored(fixture.at(0), id);
  });

  test('after the store was away', async () => {
    const { run } = takeover();
    await run(fixture.at(1));
    await run(fixture.at(15));
    expect(await listNames(), 'this replica is the first to reach the store again').toEqual(both);
    await run(fixture.at(20));
    expect(await listNames()).toEqual(both);
    // The other one renews its lease once, and then dies.
    await setLease('rep_other', 24);
    await run(fixture.at(23));
    await run(fixture.at(26));
    expect(await listNames()).toEqual(['rep_test']);
  });

  test('after a failover that lost renewals', async () => {
    const { run } = takeover();
    await run(fixture.at(2));
    await run(fixture.at(5));
    // The rows are older than this replica's last renewal.
    for (const id of both) await setLease(id, 7);
    await run(fixture.at(8));
    expect(await listNames()).toEqual(both);
    for (const seconds of [11, 14, 17]) await run(fixture.at(seconds));
    expect(await listNames()).toEqual(both);
    await run(fixture.at(20));
    expect(await listNames()).toEqual(['rep_test']);
  });
});
