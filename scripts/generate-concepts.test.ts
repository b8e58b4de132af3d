/** Checks that the tables and diagrams of the documentation match the code. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { allocationStatusNames, nodeStatusNames } from '../src/lifecycle/model/states.ts';
import { causes } from '../src/lifecycle/model/transitions.ts';
import { conceptsPath, withSections } from './generate-concepts.ts';

const page = readFileSync(conceptsPath, 'utf8');

test('docs/explanation/concepts.md is up to date (else: bin/run scripts/generate-concepts.ts)', () => {
  expect(page).toBe(withSections(page));
});

test('overwrites a table that was changed by hand', () => {
  const changedPage = page.replace('| `retired` | terminal |', '| `retired` | parked |');
  expect(changedPage).not.toBe(page);
  expect(withSections(changedPage)).toBe(page);
});

test('contains every status and every cause', () => {
  for (const name of [...nodeStatusNames, ...allocationStatusNames, ...Object.keys(causes)])
    expect(page).toContain(name);
});

test('refuses a section without a marker, or a marker without a section', () => {
  expect(() => withSections(page.replace('<!-- generated: pairs -->', ''))).toThrow('no place for pairs');
  expect(() => withSections(`${page}\n<!-- generated: nothing -->\n<!-- end -->\n`)).toThrow(
    'has no generator: nothing',
  );
});
