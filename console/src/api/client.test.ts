import { expect, it } from 'vitest';
import { keyPerBody } from './client.ts';

it('keyPerBody repeats the key of an equal body only', () => {
  const keyOf = keyPerBody();
  const long = 'a'.repeat(200);
  const keys = [
    { pool: long, name: 'x' },
    { pool: long, name: 'y' },
    { pool: long, name: 'x' },
  ].map(keyOf);
  expect(keys[2]).toBe(keys[0]);
  expect(keys[1]).not.toBe(keys[0]);
  expect(keyPerBody()({ pool: long, name: 'x' })).not.toBe(keys[0]);
});
