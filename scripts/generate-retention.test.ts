/** Checks that docs/reference/retention.md matches the classes of the code. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { retentionPath, withRetention } from './generate-retention.ts';

const written = readFileSync(retentionPath, 'utf8');

test('docs/reference/retention.md is up to date (else: node scripts/generate-retention.ts)', () => {
  expect(written).toBe(withRetention(written));
});

test('overwrites a table that was changed by hand', () => {
  const tampered = written.replace('| `tasks` |', '| `jobs` |');
  expect(tampered).not.toBe(written);
  expect(withRetention(tampered)).toBe(written);
});
