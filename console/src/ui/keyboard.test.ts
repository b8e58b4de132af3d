import { expect, it } from 'vitest';
import { createChordReader } from './keyboard.ts';

it('returns a letter pressed within 1.5 s after g, once', () => {
  const read = createChordReader();
  expect([read('f', 0), read('g', 100), read('f', 1599), read('f', 1600)]).toEqual([null, 'begun', { go: 'f' }, null]);
  expect([read('g', 2000), read('f', 3500)]).toEqual(['begun', null]);
  expect([read('g', 4000), read('g', 4100), read('u', 4200)]).toEqual(['begun', { go: 'g' }, null]);
});
