/** Which broken connections are told, and which are only counted. */
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

const byRelay = (name: string) => ({ of: 'relay' as const, actor: { kind: 'token' as const, id: name, name } });

/** Each breaks a minute after the one before; answers what was told of them. */
async function toldOf(
  name: string,
  lasted: number[],
  whose: ReturnType<typeof byRelay> | { of: 'agent'; node_id: NodeId; node_instance_id: NodeInstanceId } = byRelay(
    name,
  ),
) {
  const clock = virtualClock();
  const errors: unknown[] = [];
  const broken = createBrokenConnections({
    db: store.db,
    outside: { allows: () => true },
    clock,
    onError: (error) => errors.push(error),
  });
  for (const lasted_seconds of lasted) {
    const ending = { lasted_seconds, why: 'it ended without a goodbye', broken: true };
    broken.tell({ ...ending, ...whose, correlation_id: name as CorrelationId });
    await clock.advance(60_000);
  }
  await broken.stop();
  expect(errors).toEqual([]);
  const text =
    "select data from evidence where kind = 'connection.broken' and coalesce(actor ->> 'id', node_id) = $1 order by seq";
  const rows = await store.db.query<{ data: Record<string, unknown> }>(text, [name]);
  return rows.map(({ data }) => [data.lasted_seconds, data.repeats_since_last]);
}

test('a relay that had held its connection is told of each time that breaks, within the hour too', async () => {
  const [one, two] = [lastingSeconds, 10 * lastingSeconds];
  expect(await toldOf('lasting', [one, two, one])).toEqual([
    [one, undefined],
    [two, undefined],
    [one, undefined],
  ]);
});

test('a line that flaps is told once, and an hour later with how often it broke since', async () => {
  const short = lastingSeconds - 0.001;
  expect(await toldOf('flapping', Array(5).fill(short))).toEqual([[short, undefined]]);
  expect(await toldOf('flapping for an hour', Array(61).fill(short))).toEqual([
    [short, undefined],
    [short, 8],
    [short, 50],
  ]);
});

test('what flapped before does not hide that it died after it had lasted', async () => {
  expect(await toldOf('both', [1, 1, lastingSeconds, 1])).toEqual([
    [1, undefined],
    [lastingSeconds, undefined],
  ]);
});

test('an agent is told of once, also when it had held its connection: there may be very many', async () => {
  const whose = {
    of: 'agent' as const,
    node_id: 'node_often' as NodeId,
    node_instance_id: 'inst_often' as NodeInstanceId,
  };
  const lasted = [lastingSeconds, lastingSeconds, 10 * lastingSeconds];
  expect(await toldOf('node_often', lasted, whose)).toEqual([[lastingSeconds, undefined]]);
});
