import { expect, test } from 'vitest';
import { reusesNodes } from './reuse.ts';

test.each([
  ['reuses external machines by default', { driver: 'external' }, true],
  ['destroys launched machines by default', { driver: 'local' }, false],
  ['reuses launched machines if the pool says so', { driver: 'local', reuse: true }, true],
  ['destroys external machines if the pool says so', { driver: 'external', reuse: false }, false],
])('%s', (_, pool, reuses) => {
  expect(reusesNodes(pool)).toBe(reuses);
});
