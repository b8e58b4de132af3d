/** Limits on a real store and a virtual clock: what is recorded, what is dropped, and the fact that says so. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import { now } from '../../base/clock.ts';
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { defaultLimits, droppedKind, type LimitSettings } from '../../lifecycle/limits.ts';
import type { Fact } from '../../store/evidence.ts';
import { recordEvidence } from '../../store/evidence.ts';

import { createAccounts } from './accounts.ts';
import { createDeferredReports } from './deferred-reports.ts';
import { createOutsideWrites } from './outside-writes.ts';
import { instanceWriter, type Writer } from './writers.ts';

let store: Awaited<ReturnType<typeof testStore>>;
beforeAll(async () => {
  store = await testStore();
});
afterAll(() => store.close());

const limits: LimitSettings = {
  ...defaultLimits,
  instance: { rows: 10, rows_per_second: 1, bytes: 100_000, bytes_per_second: 100 },
  address: { rows: 4, rows_per_second: 1, bytes: 100_000, bytes_per_second: 100 },
  anonymous: { rows: 6, rows_per_second: 0.01, bytes: 100_000, bytes_per_second: 100 },
};
const machine = (name: string) =>
  instanceWriter({ node_id: `node_${name}` as NodeId, node_instance_id: `inst_${name}` as NodeInstanceId });
const address = (id: string): Writer => ({
  kind: 'address',
  id,
  draws: [
    { kind: 'address', key: id },
    { kind: 'anonymous', key: '' },
  ],
});

function outside() {
  const clock = virtualClock();
  const errors: unknown[] = [];
  const writes = createOutsideWrites({ db: store.db, clock, limits, onError: (error) => errors.push(error) });
  const fact = (correlation_id: string): Fact => ({
    ...{
      at: now(clock),
      layer: 'api',
      kind: 'request.denied',
      summary: 'refused',
      correlation_id: correlation_id as never,
    },
  });
  const recorded = async (correlation_id: string) =>
    (await store.db.query('select 1 from evidence where correlation_id = $1', [correlation_id])).length;
  return { clock, writes, fact, recorded, errors };
}

test('facts beyond the limit are dropped, and one fact per window says how many', async () => {
  const { clock, writes, fact, recorded, errors } = outside();
  for (let times = 0; times < 25; times++) await writes.record(machine('drop'), [fact('drop')]);
  expect(await recorded('drop')).toBe(10);
  await clock.advance(1000 * limits.window_seconds);
  await writes.stop();
  const reports = await store.db.query<{ data: object; node_id: string }>(
    'select data, node_id from evidence where kind = $1 and node_id = $2',
    [droppedKind, 'node_drop'],
  );
  expect(reports).toMatchObject([{ node_id: 'node_drop', data: { facts_dropped: 15, requests_refused: 0 } }]);
  expect(writes.figures().losses.get('instance')).toMatchObject({ facts_dropped: 15 });
  expect(errors).toEqual([]);
});

test('an allowance refills, and one writer does not use another one’s', async () => {
  const { clock, writes, fact, recorded } = outside();
  for (let times = 0; times < 12; times++) await writes.record(machine('a'), [fact('a')]);
  await writes.record(machine('b'), [fact('b')]);
  expect([await recorded('a'), await recorded('b')]).toEqual([10, 1]);
  expect(() => writes.admit(machine('a'))).toThrow(expect.objectContaining({ code: 'write_limit_reached' }));
  expect(writes.waitSeconds(machine('a'))).toBeLessThanOrEqual(1);
  await clock.advance(3_000);
  writes.admit(machine('a'));
  await writes.stop();
});

test('many addresses share a ceiling and one report', async () => {
  const { clock, writes, fact, recorded } = outside();
  for (let source = 0; source < 20; source++) await writes.record(address(`192.0.2.${source}`), [fact('many')]);
  expect(await recorded('many')).toBe(6);
  await clock.advance(1000 * limits.window_seconds);
  await writes.stop();
  const reports = await store.db.query<{ data: { facts_dropped: number; sources: unknown[] } }>(
    `select data from evidence where kind = $1 and data ->> 'of' = 'address'`,
    [droppedKind],
  );
  expect(reports).toHaveLength(1);
  expect(reports[0]?.data.facts_dropped).toBe(14);
  expect(reports[0]?.data.sources).toHaveLength(10);
});

test('evidence written through a charged database is paid for, in a transaction as well', async () => {
  const { writes, fact } = outside();
  const db = writes.database(store.db, machine('paid'));
  await recordEvidence(db, Array(5).fill(fact('paid')));
  await db.transaction((tx) => recordEvidence(tx, Array(5).fill(fact('paid'))));
  expect(writes.waitSeconds(machine('paid'))).toBeGreaterThan(0);
  await writes.stop();
});

test('bytes are limited like rows', async () => {
  const { writes } = outside();
  writes.charge(machine('bytes'), 1, 100_000);
  expect(() => writes.admit(machine('bytes'))).toThrow(expect.objectContaining({ code: 'write_limit_reached' }));
  await writes.stop();
});

test('accounts are bounded', () => {
  const accounts = createAccounts(virtualClock());
  const quota = limits.instance;
  for (let key = 0; key < 100_100; key++) accounts.charge(String(key), quota, 20, 0);
  expect(accounts.size()).toBe(100_000);
  expect(accounts.waitSeconds('0', quota)).toBe(0);
  expect(accounts.waitSeconds('100099', quota)).toBeGreaterThan(0);
});

test('of deferred reports the newest is recorded, once there is allowance', async () => {
  const clock = virtualClock();
  const deferred = createDeferredReports(clock);
  const id = 'inst_flap' as NodeInstanceId;
  const recorded: unknown[] = [];
  let wait = 5;
  for (const status of ['degraded', 'ready', 'degraded'] as const)
    deferred.defer(
      id,
      { status },
      () => wait,
      (newest) => recorded.push(newest),
    );
  await clock.advance(5_000);
  expect(recorded).toEqual([]);
  wait = 0;
  await clock.advance(5_000);
  expect(recorded).toEqual([{ status: 'degraded' }]);
  expect(deferred.size).toBe(0);
  wait = 1;
  deferred.defer(
    id,
    { status: 'degraded' },
    () => wait,
    (newest) => recorded.push(newest),
  );
  deferred.forget(id);
  await clock.advance(60_000);
  expect(recorded).toHaveLength(1);
});

test('a debt is never larger than one full allowance', () => {
  const clock = virtualClock();
  const accounts = createAccounts(clock);
  const quota = { rows: 10, rows_per_second: 1, bytes: 1_000, bytes_per_second: 100 };
  for (let each = 0; each < 1_000; each++) accounts.charge('one', quota, 5, 1_000_000);
  expect(accounts.waitSeconds('one', quota)).toBeLessThanOrEqual(12);
});
