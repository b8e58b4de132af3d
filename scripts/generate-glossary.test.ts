import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type GlossaryEntry, glossary } from '../src/lifecycle/glossary.ts';
import { glossaryPage, glossaryPath } from './generate-glossary.ts';

const entries: [string, GlossaryEntry][] = Object.entries(glossary);

test('docs/glossary.md is up to date (else: node scripts/generate-glossary.ts)', () => {
  expect(readFileSync(glossaryPath, 'utf8')).toBe(glossaryPage());
});

test('is in alphabetical order, and no entry is longer than 30 words', () => {
  const names = entries.map(([word]) => word);
  expect(names).toEqual(names.toSorted((a, b) => a.localeCompare(b)));
  for (const [word, { means }] of entries) expect(means.split(' ').length, word).toBeLessThanOrEqual(30);
});
