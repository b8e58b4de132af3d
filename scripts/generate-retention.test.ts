/** Checks that docs/reference/retention.md matches the classes of the code. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { retentionPath, withRetention } from './generate-retention.ts';

const page = readFileSync(retentionPath, 'utf8');

test('docs/reference/retention.md is up to date (else: bin/run scripts/generate-retention.ts)', () => {
  expect(page).toBe(withRetention(page));
});

test('overwrites a table that was changed by hand', () => {
  const changedPage = page.replace('| `tasks` |', '| `jobs` |');
  expect(changedPage).not.toBe(page);
  expect(withRetention(changedPage)).toBe(page);
});
