/** Tests which broken connections are recorded and which are only counted. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { Database } from '../../store/pg/database.ts';
import { createBrokenConnections, longLivedSeconds } from './broken-connections.ts';

let store: Awaited<ReturnType<typeof testStore>>;
beforeAll(async () => {
  store = await testStore();
});
afterAll(() => store.close());

const relayPeer = (name: string) => ({ of: 'relay' as const, actor: { kind: 'token' as const, id: name, name } });

/** Breaks one connection per minute. Returns the duration and repeat count of each fact. */
async function recordBreaks(
  name: string,
  durations: number[],
  peer: ReturnType<typeof relayPeer> | { of: 'agent'; node_id: NodeId; node_instance_id: NodeInstanceId } = relayPeer(
    name,
  ),
) {
  const clock = virtualClock();
  const errors: unknown[] = [];
  const broken = createBrokenConnections({
    db: store.db,
    writeLimits: { tryCharge: () => true },
    clock,
    onError: (error) => errors.push(error),
  });
  for (const lasted_seconds of durations) {
    const end = { lasted_seconds, why: 'it ended without a goodbye', broken: true };
    broken.report({ ...end, ...peer, correlation_id: name as CorrelationId });
    await clock.advance(60_000);
  }
  await broken.stop();
  expect(errors).toEqual([]);
  const text =
    "select data from evidence where kind = 'connection.broken' and coalesce(actor ->> 'id', node_id) = $1 order by seq";
  const rows = await store.db.query<{ data: Record<string, unknown> }>(text, [name]);
  return rows.map(({ data }) => [data.lasted_seconds, data.repeats_since_last]);
}

test('records each break of a long-lived relay connection', async () => {
  const [shortest, longer] = [longLivedSeconds, 10 * longLivedSeconds];
  expect(await recordBreaks('lasting', [shortest, longer, shortest])).toEqual([
    [shortest, undefined],
    [longer, undefined],
    [shortest, undefined],
  ]);
});

test('records a flapping connection once, then with the number of repeats', async () => {
  const short = longLivedSeconds - 0.001;
  expect(await recordBreaks('flapping', Array(5).fill(short))).toEqual([[short, undefined]]);
  expect(await recordBreaks('flapping for an hour', Array(61).fill(short))).toEqual([
    [short, undefined],
    [short, 8],
    [short, 50],
  ]);
});

test('records the break of a long-lived relay connection even after short ones were counted', async () => {
  expect(await recordBreaks('both', [1, 1, longLivedSeconds, 1])).toEqual([
    [1, undefined],
    [longLivedSeconds, undefined],
  ]);
});

test('records only the first break of an agent, even of long-lived connections', async () => {
  const peer = {
    of: 'agent' as const,
    node_id: 'node_often' as NodeId,
    node_instance_id: 'inst_often' as NodeInstanceId,
  };
  const durations = [longLivedSeconds, longLivedSeconds, 10 * longLivedSeconds];
  expect(await recordBreaks('node_often', durations, peer)).toEqual([[longLivedSeconds, undefined]]);
});

/** Its writes fail until `repair` is called. */
function createFailing() {
  const clock = virtualClock();
  const errors: unknown[] = [];
  let fails = true;
  const db = {
    ...store.db,
    transaction: ((work) =>
      fails
        ? Promise.reject(new Error('the store is unavailable'))
        : store.db.transaction(work)) as Database['transaction'],
  } as Database;
  const broken = createBrokenConnections({
    db,
    writeLimits: { tryCharge: () => true },
    clock,
    onError: (error) => errors.push(error),
  });
  const repair = () => {
    fails = false;
  };
  return { broken, clock, errors, repair };
}

test('records the next break of a connection whose first break could not be written', async () => {
  const { broken, clock, errors, repair } = createFailing();
  const breakOnce = async () => {
    broken.report({
      ...{ lasted_seconds: 1, why: 'it ended without a goodbye', broken: true },
      ...relayPeer('unwritten'),
      correlation_id: 'unwritten' as CorrelationId,
    });
    await clock.advance(1_000);
  };
  await breakOnce();
  await until('the failed write', () => errors.length === 1);
  repair();
  await breakOnce();
  await broken.stop();
  const facts = await store.db.query<{ data: Record<string, unknown> }>(
    `select data from evidence where kind = 'connection.broken' and actor ->> 'id' = 'unwritten'`,
  );
  expect(facts.map(({ data }) => data.repeats_since_last)).toEqual([1]);
});

test('keeps the number of breaks beyond the limit until it is written', async () => {
  const { broken, clock, errors, repair } = createFailing();
  const end = { lasted_seconds: longLivedSeconds, why: 'it ended without a goodbye', broken: true };
  const correlation_id = 'many' as CorrelationId;
  for (let relay = 0; relay < 2_003; relay++) broken.report({ ...end, ...relayPeer(`many ${relay}`), correlation_id });
  await clock.advance(1_000);
  await until('the failed write', () => errors.length === 1);
  repair();
  broken.report({ ...end, ...relayPeer('many'), correlation_id });
  await broken.stop();
  const facts = await store.db.query(
    `select data from evidence where kind = 'connection.broken' and data ? 'connections'`,
  );
  expect(facts).toEqual([{ data: { connections: 3 } }]);
});

test('records the next break of a connection whose first break was beyond the limit', async () => {
  const clock = virtualClock();
  const errors: unknown[] = [];
  const broken = createBrokenConnections({
    db: store.db,
    writeLimits: { tryCharge: () => true },
    clock,
    onError: (error) => errors.push(error),
  });
  const breakOnce = (name: string) =>
    broken.report({
      ...{ lasted_seconds: 1, why: 'it ended without a goodbye', broken: true },
      ...relayPeer(name),
      correlation_id: 'crowded' as CorrelationId,
    });
  for (let relay = 0; relay < 2_000; relay++) breakOnce(`crowd ${relay}`);
  breakOnce('crowded out');
  await clock.advance(1_000);
  breakOnce('crowded out');
  await broken.stop();
  expect(errors).toEqual([]);
  const facts = await store.db.query<{ data: Record<string, unknown> }>(
    `select data from evidence where kind = 'connection.broken' and actor ->> 'id' = 'crowded out'`,
  );
  expect(facts.map(({ data }) => data.repeats_since_last)).toEqual([1]);
});
