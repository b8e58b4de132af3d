import { globSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { interleave, slowestFiles } from './file-order.ts';

test.for([
  { some: ['a', 'b'], others: ['1', '2', '3', '4'], merged: ['a', '1', '2', 'b', '3', '4'] },
  { some: ['a', 'b', 'c'], others: ['1'], merged: ['a', '1', 'b', 'c'] },
  { some: [], others: ['1', '2'], merged: ['1', '2'] },
])('spreads $some evenly over $others and keeps the order of each', ({ some, others, merged }) => {
  expect(interleave(some, others)).toEqual(merged);
});

test('each entry of slowestFiles matches exactly one test file', () => {
  const root = join(import.meta.dirname, '../../..');
  const files = globSync('{src,test}/**/*.test.ts', { cwd: root });
  const wrongEntries = slowestFiles.filter((end) => files.filter((file) => file.endsWith(`/${end}`)).length !== 1);
  expect(wrongEntries).toEqual([]);
});
