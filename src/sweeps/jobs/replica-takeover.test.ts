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

test('after a restore dead replicas are declared dead, and their operations wait for the end of the restoration', async () => {
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
  for (const seconds of [1, 4, 7, 10, 13]) expect(await run(fixture.at(seconds))).toEqual({ decided: 0 });
  expect(recover).not.toHaveBeenCalled();
  expect((await listUnfinishedReplicas(fixture.db)).map(({ replica_id }) => replica_id)).toEqual(['rep_test']);
  isOpen = false;
  expect(await run(fixture.at(16))).toEqual({ decided: 1 });
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
  for (const seconds of [1, 4, 7, 10, 13]) await run(fixture.at(seconds));
  expect((await listNames()).sort()).toEqual(['rep_other', 'rep_test']);
  isAlive = false;
  await run(fixture.at(14));
  expect(await listNames()).toEqual(['rep_test']);

  isAlive = true;
  isClockSettled = true;
  await fixture.markStored(fixture.at(-3600), 'rep_third');
  for (const seconds of [17, 20, 23, 26, 29]) await run(fixture.at(seconds));
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

  /** Runs at these seconds, and returns which replicas are not dead then. */
  const namesAfter = async ({ run }: { run: (now: Date) => Promise<unknown> }, ...seconds: number[]) => {
    for (const each of seconds) await run(fixture.at(each));
    return listNames();
  };

  test('a replica that renews its lease no more is dead after five runs', async () => {
    const sweep = takeover();
    await setLease('rep_other', 10);
    expect(await namesAfter(sweep, 1, 4, 7, 10)).toEqual(both);
    expect(await namesAfter(sweep, 13)).toEqual(['rep_test']);
  });

  test('after the store was away', async () => {
    const sweep = takeover();
    await setLease('rep_other', 10);
    expect(await namesAfter(sweep, 1, 4)).toEqual(both);
    expect(await namesAfter(sweep, 30, 33), 'this replica is the first to reach the store again').toEqual(both);
    await setLease('rep_other', 45);
    expect(await namesAfter(sweep, 36, 39, 42, 45)).toEqual(both);
    expect(await namesAfter(sweep, 48)).toEqual(['rep_test']);
  });

  test('after the start of this replica', async () => {
    await setLease('rep_other', -100);
    const sweep = takeover();
    expect(await namesAfter(sweep, 1, 4, 7, 10)).toEqual(both);
    expect(await namesAfter(sweep, 13)).toEqual(['rep_test']);
  });

  test('after a failover that lost renewals', async () => {
    const sweep = takeover();
    await setLease('rep_other', 12);
    expect(await namesAfter(sweep, 2, 5)).toEqual(both);
    // The row is older than what this replica read last.
    await setLease('rep_other', 7);
    expect(await namesAfter(sweep, 8, 11, 14, 17)).toEqual(both);
    expect(await namesAfter(sweep, 20)).toEqual(['rep_test']);
  });

  test('if each run takes long, a dead replica is found later, but it is found', async () => {
    const sweep = takeover();
    await setLease('rep_other', 10);
    expect(await namesAfter(sweep, 1, 9, 17, 25)).toEqual(both);
    expect(await namesAfter(sweep, 33)).toEqual(['rep_test']);
  });
});
