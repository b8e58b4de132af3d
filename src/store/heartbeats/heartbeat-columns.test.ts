/** Tests how heartbeats of one instance are merged, in any order of arrival. */
import { expect, test } from 'vitest';
import type { NodeInstanceId } from '../../base/ids.ts';
import { builtInRedactor } from '../../base/redaction/redact.ts';
import { type Beat, type BeatColumns, createBeatColumns, filterRows, splitRows } from './heartbeat-columns.ts';

const beat = (name: string, received_ms: number, more: Partial<Beat> = {}): Beat => ({
  node_instance_id: `inst_${name}` as NodeInstanceId,
  ...{ received_ms, interval_seconds: 10, stale_seconds: 30, has_assigned_interval: true, reported: null },
  ...more,
});

function columnsOf(isAssigned: boolean, ...beats: Beat[]): BeatColumns {
  const columns = createBeatColumns(isAssigned, builtInRedactor);
  for (const each of beats) columns.add(each);
  return columns;
}

const first = beat('a', 1, { interval_seconds: 125, stale_seconds: 375, reported: { health_score: 1 } });
const second = beat('a', 2, { interval_seconds: 20, stale_seconds: 60 });

test.each([
  ['in order', [first, second]],
  ['the later one first', [second, first]],
])('keeps the later time, the last report and the longer stale time: %s', (_, beats) => {
  expect(columnsOf(true, ...beats).rows).toEqual({
    ...{ has_assigned_interval: true, ids: ['inst_a'], received_ms: [2], interval_ms: [20_000], stale_ms: [375_000] },
    reported: ['{"health_score":1}'],
  });
});

test('keeps no former stale time for a client that sets its own interval', () => {
  for (const beats of [
    [first, second],
    [second, first],
  ])
    expect(columnsOf(false, ...beats).rows.stale_ms).toEqual([60_000]);
});

test('keeps the latest report, in any order', () => {
  const report = (received_ms: number, health_score: number) => beat('a', received_ms, { reported: { health_score } });
  expect(columnsOf(true, report(1, 0.1), report(2, 0.2)).rows.reported).toEqual(['{"health_score":0.2}']);
  expect(columnsOf(true, report(2, 0.2), report(1, 0.1)).rows.reported).toEqual(['{"health_score":0.2}']);
});

test('redacts secrets in a report', () => {
  const stored = columnsOf(true, beat('a', 1, { reported: { message: 'password=hunter2hunter2' } })).rows.reported[0];
  expect(stored).not.toContain('hunter2');
});

test('puts back the rows of a failed write: keeps every instance, and newer heartbeats win', () => {
  const columns = columnsOf(true, second, beat('b', 5));
  columns.putBack(columnsOf(true, first, beat('c', 1)).rows);
  expect(columns.rows).toMatchObject({ ids: ['inst_a', 'inst_b', 'inst_c'], received_ms: [2, 5, 1] });
  expect(columns.rows.reported).toEqual(['{"health_score":1}', '', '']);
});

test('splits rows into chunks in order of arrival', () => {
  const { rows } = columnsOf(true, ...['a', 'b', 'c', 'd', 'e'].map((name, received_ms) => beat(name, received_ms)));
  const chunks = splitRows(rows, 2);
  expect(chunks.map(({ ids }) => ids.length)).toEqual([2, 2, 1]);
  expect(chunks.flatMap(({ received_ms }) => received_ms)).toEqual([0, 1, 2, 3, 4]);
  expect(filterRows(rows, (id) => id === 'inst_d')).toMatchObject({
    ids: ['inst_d'],
    received_ms: [3],
    stale_ms: [30_000],
  });
});
