/** Tests the write limits on a real store and a virtual clock. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testStore } from '../../../../test/support/store.ts';
import { now } from '../../../base/clock.ts';
import type { NodeId, NodeInstanceId } from '../../../base/ids.ts';
import { virtualClock } from '../../../base/virtual-clock.ts';
import type { Heartbeat } from '../../../contract/agent/agent.ts';
import {
  defaultLimits,
  droppedKind,
  type LimitSettings,
  maxWritesInProgress,
} from '../../../lifecycle/limits/limits.ts';
import type { Fact } from '../../../store/evidence/evidence.ts';
import { recordEvidence } from '../../../store/evidence/evidence.ts';

import { createAccounts } from './accounts.ts';
import { createDeferredReports } from './deferred-reports.ts';
import { createWriteLimits } from './write-limits.ts';
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
const oneRow = { rows: 1, bytes: 0 };
const address = (id: string): Writer => ({
  kind: 'address',
  id,
  allowances: [
    { kind: 'address', key: id },
    { kind: 'anonymous', key: '' },
  ],
});

function openWrites() {
  const clock = virtualClock();
  const errors: unknown[] = [];
  const writes = createWriteLimits({ db: store.db, clock, limits, onError: (error) => errors.push(error) });
  const fact = (correlation_id: string): Fact => ({
    ...{
      at: now(clock),
      layer: 'api',
      kind: 'request.denied',
      summary: 'refused',
      correlation_id: correlation_id as never,
    },
  });
  const countRecorded = async (correlation_id: string) =>
    (await store.db.query('select 1 from evidence where correlation_id = $1', [correlation_id])).length;
  return { clock, writes, fact, countRecorded, errors };
}

test('drops facts beyond the limit, and records how many once per window', async () => {
  const { clock, writes, fact, countRecorded, errors } = openWrites();
  for (let times = 0; times < 25; times++) await writes.record(machine('drop'), [fact('drop')]);
  expect(await countRecorded('drop')).toBe(10);
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

test('gives each writer its own allowance, and refills it over time', async () => {
  const { clock, writes, fact, countRecorded } = openWrites();
  for (let times = 0; times < 12; times++) await writes.record(machine('a'), [fact('a')]);
  await writes.record(machine('b'), [fact('b')]);
  expect([await countRecorded('a'), await countRecorded('b')]).toEqual([10, 1]);
  expect(() => writes.reserve(machine('a'), oneRow)).toThrow(expect.objectContaining({ code: 'write_limit_reached' }));
  expect(writes.waitSeconds(machine('a'))).toBeLessThanOrEqual(1);
  await clock.advance(3_000);
  writes.reserve(machine('a'), oneRow);
  await writes.stop();
});

test('limits all addresses together, and reports them in one fact', async () => {
  const { clock, writes, fact, countRecorded } = openWrites();
  for (let source = 0; source < 20; source++) await writes.record(address(`192.0.2.${source}`), [fact('many')]);
  expect(await countRecorded('many')).toBe(6);
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

test('charges evidence written through a charged database, also in a transaction', async () => {
  const { writes, fact } = openWrites();
  const db = writes.database(store.db, machine('paid'));
  await recordEvidence(db, Array(5).fill(fact('paid')));
  await db.transaction((tx) => recordEvidence(tx, Array(5).fill(fact('paid'))));
  expect(writes.waitSeconds(machine('paid'))).toBeGreaterThan(0);
  await writes.stop();
});

test('limits bytes as well as rows', async () => {
  const { writes } = openWrites();
  writes.charge(machine('bytes'), 1, 100_000);
  expect(() => writes.reserve(machine('bytes'), oneRow)).toThrow(
    expect.objectContaining({ code: 'write_limit_reached' }),
  );
  await writes.stop();
});

test('reserves for concurrent writes, and releases what they did not use', async () => {
  const { writes } = openWrites();
  const writer = machine('concurrent');
  const releases = [4, 4, 4].map((rows) => writes.tryReserve(writer, { rows, bytes: 0 }));
  expect(releases.every(Boolean), 'the last reservation may exceed the balance').toBe(true);
  expect(() => writes.reserve(writer, oneRow)).toThrow(expect.objectContaining({ code: 'write_limit_reached' }));
  for (const release of releases) {
    release?.();
    // A second release must not free the reservations of others.
    release?.();
  }
  expect(writes.waitSeconds(writer)).toBe(0);
  await expect(
    writes.whileReserved(writer, { rows: 10, bytes: 0 }, () => Promise.reject(new Error('no'))),
  ).rejects.toThrow('no');
  expect(writes.waitSeconds(writer), 'a failed write releases its reservation').toBe(0);
  await writes.stop();
});

test('limits the writes in progress of one writer', async () => {
  const { writes } = openWrites();
  const nothing = { rows: 0, bytes: 0 };
  const max = maxWritesInProgress.instance ?? 0;
  const releases = Array.from({ length: max }, () => writes.reserve(machine('busy'), nothing));
  expect(() => writes.reserve(machine('busy'), nothing)).toThrow(
    expect.objectContaining({ code: 'write_limit_reached', extras: { retry_after_seconds: 1 } }),
  );
  expect(writes.tryReserve(machine('busy'), nothing)).toBeUndefined();
  writes.reserve(machine('other'), nothing);
  releases[0]?.();
  writes.reserve(machine('busy'), nothing);
  await writes.stop();
});

test('limits the number of accounts by evicting the oldest', () => {
  const accounts = createAccounts(virtualClock());
  const quota = limits.instance;
  for (let key = 0; key < 100_100; key++) accounts.charge(String(key), quota, 20, 0);
  expect(accounts.size()).toBe(100_000);
  expect(accounts.waitSeconds('0', quota)).toBe(0);
  expect(accounts.waitSeconds('100099', quota)).toBeGreaterThan(0);
});

test('records the newest deferred report once the quota allows', async () => {
  const clock = virtualClock();
  const deferred = createDeferredReports(clock);
  const id = 'inst_flap' as NodeInstanceId;
  const recordedReports: unknown[] = [];
  let wait = 5;
  for (const status of ['degraded', 'ready', 'degraded'] as const)
    deferred.defer(
      id,
      { beat: { status }, received_at: now(clock) },
      () => wait,
      (newest) => recordedReports.push(newest),
    );
  await clock.advance(5_000);
  expect(recordedReports).toEqual([]);
  wait = 0;
  await clock.advance(5_000);
  expect(recordedReports).toMatchObject([{ beat: { status: 'degraded' } }]);
  expect(deferred.size).toBe(0);
  wait = 1;
  deferred.defer(
    id,
    { beat: { status: 'degraded' }, received_at: now(clock) },
    () => wait,
    (newest) => recordedReports.push(newest),
  );
  deferred.forget(id);
  await clock.advance(60_000);
  expect(recordedReports).toHaveLength(1);
});

test('replaces a deferred report by a newer one without merging, and keeps its time of receipt', async () => {
  const clock = virtualClock();
  const deferred = createDeferredReports(clock);
  const id = 'inst_merge' as NodeInstanceId;
  const recordedReports: unknown[] = [];
  const defer = (beat: Heartbeat) =>
    deferred.defer(
      id,
      { beat, received_at: now(clock) },
      () => 0,
      (newest) => recordedReports.push(newest),
    );
  defer({ status: 'degraded', message: 'of the former tenant' });
  await clock.advance(50);
  const received_at = now(clock);
  defer({ status: 'ready' });
  defer({ error_rate: 0.9 });
  await clock.advance(1_000);
  expect(recordedReports).toEqual([{ beat: { status: 'ready' }, received_at }]);
});

test('gives a machine its full allowance again on resetInstance', async () => {
  const { writes, fact } = openWrites();
  const db = writes.database(store.db, machine('reused'));
  await recordEvidence(db, Array(20).fill(fact('reused')));
  expect(writes.waitSeconds(machine('reused'))).toBeGreaterThan(0);
  writes.resetInstance('inst_reused' as NodeInstanceId);
  expect(writes.waitSeconds(machine('reused'))).toBe(0);
  await writes.stop();
});

test('limits debt to one full allowance', () => {
  const clock = virtualClock();
  const accounts = createAccounts(clock);
  const quota = { rows: 10, rows_per_second: 1, bytes: 1_000, bytes_per_second: 100 };
  for (let each = 0; each < 1_000; each++) accounts.charge('one', quota, 5, 1_000_000);
  expect(accounts.waitSeconds('one', quota)).toBeLessThanOrEqual(12);
});

test('does not take reservations from the allowance that all writers share', () => {
  const { writes } = openWrites();
  const release = writes.reserve(machine('reserving'), { rows: 3_000_000, bytes: 0 });
  expect(writes.waitSeconds(machine('reserving'))).toBe(1);
  expect(writes.waitSeconds(machine('another'))).toBe(0);
  release();
  expect(writes.waitSeconds(machine('reserving'))).toBe(0);
});
