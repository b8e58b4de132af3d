import { expect, test } from 'vitest';
import { computeBuffersMb, socketDirectory } from './settings.ts';

test('uses a sixteenth of the memory for buffers, within bounds', () => {
  const gb = 2 ** 30;
  expect(computeBuffersMb(gb / 2)).toBe(128);
  expect(computeBuffersMb(4 * gb)).toBe(256);
  expect(computeBuffersMb(256 * gb)).toBe(1024);
});

test('puts the socket into the cluster directory unless the path is too long', () => {
  expect(socketDirectory('/data/postgres', 5432)).toBe('/data/postgres');
  const longest = `/${'d'.repeat(107 - '//.s.PGSQL.65535'.length)}`;
  expect(socketDirectory(longest, 65_535)).toBe(longest);
  expect(socketDirectory(`${longest}d`, 65_535)).toBeUndefined();
});
