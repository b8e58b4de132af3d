import { expect, it } from 'vitest';
import { heartbeatWords, heldCount, heldHeadline } from './words.ts';

const held = (...nodes: number[]) => nodes.map((count) => ({ rule: 'liveness', kind: 'mass-failure', nodes: count }));

it('counts held verdicts, as a label and as a headline', () => {
  const nothing = { holding: false, held: [] };
  const one = { holding: true, held: held(1) };
  const many = { holding: true, held: held(7, 1) };
  const paused = { holding: true, held: [] };
  expect([nothing, one, many, paused].map(heldCount)).toEqual([null, '1 held', '8 held', 'paused']);
  expect([nothing, one, many, paused].map(heldHeadline)).toEqual([
    'Nothing is held back',
    '1 verdict is held back',
    '8 verdicts are held back',
    'New launches are paused',
  ]);
});

it('reports heartbeats that have not arrived', () => {
  const at = '2026-01-01T12:01:00Z';
  expect(heartbeatWords({ at, heard_through: '2026-01-01T12:00:59Z' })).toContain('All heartbeats');
  expect(heartbeatWords({ at, heard_through: '2026-01-01T12:00:00Z' })).toContain('of the last 60 s have not arrived');
  expect(heartbeatWords({ at, heard_through: null })).toContain('No replica');
});
