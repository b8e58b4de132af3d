/** What a workload was given as secret is struck out of what it prints, whatever it is called. */
import { expect, test } from 'vitest';
import { redactionMark } from '../../base/redaction/redact.ts';
import { strikeKnown } from './known-secrets.ts';

test('values under secret names and values of stored secrets are struck out, others stay', () => {
  const strike = strikeKnown(
    { DB_PASSWORD: 'plum quartz 1', GREETING: 'meadow harbor 2', MODE: 'walnut lantern 3', PIN_TOKEN: 'short' },
    ['GREETING'],
  );
  expect(strike('a plum quartz 1 b meadow harbor 2 c walnut lantern 3 d short')).toBe(
    `a ${redactionMark} b ${redactionMark} c walnut lantern 3 d short`,
  );
});

test('a value of several lines is struck out of each line, also inside JSON', () => {
  const strike = strikeKnown({ CERT: 'first "long" line\nshort\nlast long line' }, ['CERT']);
  expect(strike('last long line')).toBe(redactionMark);
  expect(strike(JSON.stringify({ line: 'first "long" line' }))).toBe(`{"line":"${redactionMark}"}`);
  expect(strike('short')).toBe('short');
});
