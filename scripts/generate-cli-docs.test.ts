import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { page, referenceDocument } from './generate-cli-docs.ts';

test('docs/reference/cli.md is up to date (else: bin/run scripts/generate-cli-docs.ts)', async () => {
  expect(readFileSync(page, 'utf8')).toBe(await referenceDocument());
});
