/** Which of several beats of one instance is kept, whatever the order in which they came. */
import { expect, test } from 'vitest';
import type { NodeInstanceId } from '../../base/ids.ts';
import { builtInRedactor } from '../../base/redaction/redact.ts';
import { type Beat, type BeatColumns, beatColumns, piecesOf, rowsOf } from './heartbeat-columns.ts';

const beat = (name: string, received_ms: number, more: Partial<Beat> = {}): Beat => ({
  node_instance_id: `inst_${name}` as NodeInstanceId,
  ...{ received_ms, interval_seconds: 10, stale_seconds: 30, has_assigned_interval: true, reported: null },
  ...more,
});

function of(isAssigned: boolean, ...beats: Beat[]): BeatColumns {
  const columns = beatColumns(isAssigned, builtInRedactor);
  for (const each of beats) columns.add(each);
  return columns;
}

const first = beat('a', 1, { interval_seconds: 125, stale_seconds: 375, reported: { health_score: 1 } });
const second = beat('a', 2, { interval_seconds: 20, stale_seconds: 60 });

test.each([
  ['in order', [first, second]],
  ['the later one first', [second, first]],
])('of two beats the later counts, with what was said last and the longer patience: %s', (_, beats) => {
  expect(of(true, ...beats).rows).toEqual({
    ...{ has_assigned_interval: true, ids: ['inst_a'], received_ms: [2], interval_ms: [20_000], stale_ms: [375_000] },
    reported: ['{"health_score":1}'],
  });
});

test('one that was told nothing owes nothing to its former pace', () => {
  for (const beats of [
    [first, second],
    [second, first],
  ])
    expect(of(false, ...beats).rows.stale_ms).toEqual([60_000]);
});

test('what was said last is kept, and of an older beat only what nothing newer says', () => {
  const saying = (received_ms: number, health_score: number) => beat('a', received_ms, { reported: { health_score } });
  expect(of(true, saying(1, 0.1), saying(2, 0.2)).rows.reported).toEqual(['{"health_score":0.2}']);
  expect(of(true, saying(2, 0.2), saying(1, 0.1)).rows.reported).toEqual(['{"health_score":0.2}']);
});

test('a secret in what a machine says is not kept', () => {
  const said = of(true, beat('a', 1, { reported: { message: 'password=hunter2hunter2' } })).rows.reported[0];
  expect(said).not.toContain('hunter2');
});

test('what could not be stored goes beneath what has come since, and nothing is lost', () => {
  const columns = of(true, second, beat('b', 5));
  columns.putBack(of(true, first, beat('c', 1)).rows);
  expect(columns.rows).toMatchObject({ ids: ['inst_a', 'inst_b', 'inst_c'], received_ms: [2, 5, 1] });
  expect(columns.rows.reported).toEqual(['{"health_score":1}', '', '']);
});

test('pieces are in the order of their coming, and every row is in one', () => {
  const { rows } = of(true, ...['a', 'b', 'c', 'd', 'e'].map((name, at) => beat(name, at)));
  const pieces = piecesOf(rows, 2);
  expect(pieces.map(({ ids }) => ids.length)).toEqual([2, 2, 1]);
  expect(pieces.flatMap(({ received_ms }) => received_ms)).toEqual([0, 1, 2, 3, 4]);
  expect(rowsOf(rows, (id) => id === 'inst_d')).toMatchObject({
    ids: ['inst_d'],
    received_ms: [3],
    stale_ms: [30_000],
  });
});
