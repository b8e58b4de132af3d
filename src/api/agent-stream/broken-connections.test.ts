/** Tests which broken connections are recorded and which are only counted. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testStore } from '../../../test/support/store.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import { createBrokenConnections, lastingSeconds } from './broken-connections.ts';

let store: Awaited<ReturnType<typeof testStore>>;
beforeAll(async () => {
  store = await testStore();
});
afterAll(() => store.close());

const relayPeer = (name: string) => ({ of: 'relay' as const, actor: { kind: 'token' as const, id: name, name } });

/** Breaks one connection per minute. Returns the duration and repeat count of each fact. */
async function recordBreaks(
  name: string,
  lasted: number[],
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
  for (const lasted_seconds of lasted) {
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

test('records each break of a relay connection that had lasted', async () => {
  const [shortest, longer] = [lastingSeconds, 10 * lastingSeconds];
  expect(await recordBreaks('lasting', [shortest, longer, shortest])).toEqual([
    [shortest, undefined],
    [longer, undefined],
    [shortest, undefined],
  ]);
});

test('records a flapping connection once, then with the number of repeats', async () => {
  const short = lastingSeconds - 0.001;
  expect(await recordBreaks('flapping', Array(5).fill(short))).toEqual([[short, undefined]]);
  expect(await recordBreaks('flapping for an hour', Array(61).fill(short))).toEqual([
    [short, undefined],
    [short, 8],
    [short, 50],
  ]);
});

test('records the break of a lasting relay connection even after short ones were counted', async () => {
  expect(await recordBreaks('both', [1, 1, lastingSeconds, 1])).toEqual([
    [1, undefined],
    [lastingSeconds, undefined],
  ]);
});

test('records only the first break of an agent, even if its connections had lasted', async () => {
  const peer = {
    of: 'agent' as const,
    node_id: 'node_often' as NodeId,
    node_instance_id: 'inst_often' as NodeInstanceId,
  };
  const lasted = [lastingSeconds, lastingSeconds, 10 * lastingSeconds];
  expect(await recordBreaks('node_often', lasted, peer)).toEqual([[lastingSeconds, undefined]]);
});
