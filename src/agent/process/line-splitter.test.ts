import { expect, test } from 'vitest';
import { lineSplitter, most_line_length } from './line-splitter.ts';

const bytes = (text: string) => Buffer.from(text);

test('lines end where they end, not where chunks do, also within a character', () => {
  const splitter = lineSplitter();
  const text = bytes('höl\nzwei\r\ndrei');
  expect([...splitter.push(text.subarray(0, 2)), ...splitter.push(text.subarray(2))]).toEqual(['höl', 'zwei']);
  expect(splitter.end()).toEqual(['drei']);
  expect(splitter.end()).toEqual([]);
});

test('a line without an end is cut into pieces that the server takes, none in the middle of a character', () => {
  const splitter = lineSplitter();
  const endless = `x${'😀'.repeat(most_line_length)}`;
  const pieces = [...splitter.push(bytes(endless)), ...splitter.end()];
  expect(pieces.join('')).toBe(endless);
  expect(pieces.length).toBeGreaterThan(1);
  for (const piece of pieces) {
    expect(piece.length).toBeLessThanOrEqual(most_line_length);
    expect(piece.isWellFormed()).toBe(true);
  }
});

test('a long line that ends within one chunk is cut too', () => {
  const pieces = lineSplitter().push(bytes(`${'y'.repeat(most_line_length + 1)}\n`));
  expect(pieces.map(({ length }) => length)).toEqual([most_line_length, 1]);
});

test('bytes that the store cannot hold become ones that it can', () => {
  expect(lineSplitter().push(Buffer.from([0x61, 0x00, 0xff, 0x0a]))).toEqual(['a\uFFFD\uFFFD']);
});
