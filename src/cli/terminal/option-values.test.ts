/** Tests which moments flags accept. */
import { expect, test } from 'vitest';
import { momentOrAgo, moment as parseMoment } from './option-values.ts';

test.for([
  ['2026-01-31T14:00:00Z', '2026-01-31T14:00:00.000Z'],
  ['2026-01-31T14:00Z', '2026-01-31T14:00:00.000Z'],
  ['2026-01-31 14:00:02Z', '2026-01-31T14:00:02.000Z'],
  ['2026-01-31T14:00:00.500+02:00', '2026-01-31T12:00:00.500Z'],
] as const)('%s is the moment %s', ([text, at]) => {
  expect(parseMoment(text)).toBe(at);
  expect(momentOrAgo(text)).toEqual({ at });
});

test.for(['2026-01-31T14:00:00', '2026-01-31 14:00', '2026-01-31', '12-2026', 'yesterday', '2026-13-31T14:00:00Z'])(
  '%s is refused with the form to use',
  (text) => {
    expect(() => parseMoment(text)).toThrow('with its zone, like 2026-01-31T14:00:00Z');
    expect(() => momentOrAgo(text)).toThrow('with its zone, like 2026-01-31T14:00:00Z');
  },
);

test('a time ago needs no zone', () => {
  expect(momentOrAgo('15m')).toEqual({ seconds_ago: 900 });
});
