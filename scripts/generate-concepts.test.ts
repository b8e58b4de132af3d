/** The documentation's tables and diagrams are the code's. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { allocationStatusNames, nodeStatusNames } from '../src/lifecycle/model/states.ts';
import { causes } from '../src/lifecycle/model/transitions.ts';
import { conceptsPath, withSections } from './generate-concepts.ts';

const written = readFileSync(conceptsPath, 'utf8');

test('docs/explanation/concepts.md is what the tables say (else: node scripts/generate-concepts.ts)', () => {
  expect(written).toBe(withSections(written));
});

test('a table that was changed by hand is written anew', () => {
  const tampered = written.replace('| `retired` | terminal |', '| `retired` | parked |');
  expect(tampered).not.toBe(written);
  expect(withSections(tampered)).toBe(written);
});

test('every status and every cause is in it', () => {
  for (const name of [...nodeStatusNames, ...allocationStatusNames, ...Object.keys(causes)])
    expect(written).toContain(name);
});

test('a section without a place, or a place without a section, is an error', () => {
  expect(() => withSections(written.replace('<!-- generated: pairs -->', ''))).toThrow('no place for pairs');
  expect(() => withSections(`${written}\n<!-- generated: nothing -->\n<!-- end -->\n`)).toThrow(
    'nobody writes: nothing',
  );
});
