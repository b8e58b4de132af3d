import { expect, test } from 'vitest';
import { bothSides } from './finding.ts';

test('what fails again and again is told as a count, anything else by both sides', () => {
  const ours = { pool: 'gpu', generation: 1, window_seconds: 86_400, failures_allowed: 2 };
  const says = 'bringing it up fails again and again';
  expect(bothSides({ says, ours, theirs: { failures: 3, newest: ['a', 'b', 'c'] } })).toBe(
    `${says}: 3 failures within 24 h, where 2 are allowed`,
  );
  expect(bothSides({ says: 'it is gone', ours: { status: 'ready' }, theirs: { present: false } })).toBe(
    'it is gone: we hold status ready; found present false',
  );
});
