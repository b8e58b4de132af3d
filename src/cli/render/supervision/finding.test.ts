/** Checks how each kind of finding shows our record and what was found. */
import { expect, test } from 'vitest';
import { bothSides } from './finding.ts';

test('shows repeated failures as a count, slower boots as a sentence, and other kinds by both sides', () => {
  const ours = { pool: 'gpu', generation: 1, window_seconds: 86_400, failures_allowed: 2 };
  const says = 'it repeatedly fails to come up';
  expect(bothSides({ kind: 'repeat-failure', says, ours, theirs: { failures: 3, newest: ['a', 'b', 'c'] } })).toBe(
    `${says}: 3 failures within 24 h, 2 allowed`,
  );
  expect(bothSides({ kind: 'drift', says: 'it is gone', ours: { status: 'ready' }, theirs: { present: false } })).toBe(
    'it is gone: our record: status ready; found: present false',
  );
  const slower = 'boots take 1.3 times as long since 2026-01-07T14:00:00.000Z: median 530 s, before 423 s';
  expect(bothSides({ kind: 'boot-shift', says: slower, ours: { boots: 120 }, theirs: { boots: 30 } })).toBe(
    'boots take 1.3 times as long since 2026-01-07 14:00:00Z: median 530 s, before 423 s',
  );
});
