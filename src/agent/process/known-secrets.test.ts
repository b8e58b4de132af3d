/** Tests that the secrets in the environment of a workload are redacted from its output. */
import { expect, test } from 'vitest';
import { redactionMark } from '../../base/redaction/redact.ts';
import { createSecretRedactor } from './known-secrets.ts';

test('redacts variables that have a secret name or are listed as secret, except short values', () => {
  const redact = createSecretRedactor(
    { DB_PASSWORD: 'plum quartz 1', GREETING: 'meadow harbor 2', MODE: 'walnut lantern 3', PIN_TOKEN: 'short' },
    ['GREETING'],
  );
  expect(redact('a plum quartz 1 b meadow harbor 2 c walnut lantern 3 d short')).toBe(
    `a ${redactionMark} b ${redactionMark} c walnut lantern 3 d short`,
  );
});

test('redacts each line of a multi-line value, except short lines, also inside JSON', () => {
  const redact = createSecretRedactor({ CERT: 'first "long" line\nshort\nlast long line' }, ['CERT']);
  expect(redact('last long line')).toBe(redactionMark);
  expect(redact(JSON.stringify({ line: 'first "long" line' }))).toBe(`{"line":"${redactionMark}"}`);
  expect(redact('short')).toBe('short');
});
