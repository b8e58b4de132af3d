import { expect, test } from 'vitest';
import { buffersMb } from './settings.ts';

test('the database keeps a sixteenth of the memory for its pages, never too little and never too much', () => {
  const gb = 2 ** 30;
  expect(buffersMb(gb / 2)).toBe(128);
  expect(buffersMb(4 * gb)).toBe(256);
  expect(buffersMb(256 * gb)).toBe(1024);
});
