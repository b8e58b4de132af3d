import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type GlossaryEntry, glossary } from '../src/lifecycle/glossary.ts';
import { glossaryPage, glossaryPath } from './generate-glossary.ts';

const entries: [string, GlossaryEntry][] = Object.entries(glossary);

test('docs/glossary.md is up to date (else: bin/run scripts/generate-glossary.ts)', () => {
  expect(readFileSync(glossaryPath, 'utf8')).toBe(glossaryPage());
});

test('the glossary is in alphabetical order, and no entry has more than 30 words', () => {
  const names = entries.map(([word]) => word);
  expect(names).toEqual(names.toSorted((a, b) => a.localeCompare(b)));
  for (const [word, { means }] of entries) expect(means.split(' ').length, word).toBeLessThanOrEqual(30);
});

/** Folder names that need no entry: words that every engineer knows, and abbreviations. */
const general = new Set([
  ...['api', 'base', 'cli', 'contract', 'server', 'store'],
  ...['explain', 'model'],
  ...['history', 'integrity', 'keys', 'logs', 'migrations', 'pg', 'rows', 'testing', 'upgrade'],
  ...['find', 'sign-in'],
]);

const root = join(import.meta.dirname, '..');
const foldersIn = (path: string) =>
  readdirSync(join(root, path), { withFileTypes: true })
    .filter((each) => each.isDirectory())
    .map(({ name }) => name);

test.each(['src', 'src/lifecycle', 'src/store', 'console/src/features'])(
  'has an entry for every folder in %s that is named after a term',
  (path) => {
    const folders = foldersIn(path);
    const hasEntry = (name: string) => Object.hasOwn(glossary, name) || Object.hasOwn(glossary, name.replace(/s$/, ''));
    expect(folders.length).toBeGreaterThan(5);
    expect(folders.filter((name) => !general.has(name) && !hasEntry(name))).toEqual([]);
  },
);

test('lists no word as general that has an entry, and none without a folder', () => {
  const folders = ['src', 'src/lifecycle', 'src/store', 'console/src/features'].flatMap(foldersIn);
  expect([...general].filter((word) => Object.hasOwn(glossary, word) || !folders.includes(word))).toEqual([]);
});
