import { expect, test } from 'vitest';
import { lineSplitter, max_line_length } from './line-splitter.ts';

const bytes = (text: string) => Buffer.from(text);

test('splits at line ends, also if a chunk ends within a character', () => {
  const splitter = lineSplitter();
  const text = bytes('höl\nzwei\r\ndrei');
  expect([...splitter.push(text.subarray(0, 2)), ...splitter.push(text.subarray(2))]).toEqual(['höl', 'zwei']);
  expect(splitter.end()).toEqual(['drei']);
  expect(splitter.end()).toEqual([]);
});

test('cuts an endless line into pieces that the server accepts, never within a character', () => {
  const splitter = lineSplitter();
  const endless = `x${'😀'.repeat(max_line_length)}`;
  const pieces = [...splitter.push(bytes(endless)), ...splitter.end()];
  expect(pieces.join('')).toBe(endless);
  expect(pieces.length).toBeGreaterThan(1);
  for (const piece of pieces) {
    expect(piece.length).toBeLessThanOrEqual(max_line_length);
    expect(piece.isWellFormed()).toBe(true);
  }
});

test('cuts a long line that ends within one chunk', () => {
  const pieces = lineSplitter().push(bytes(`${'y'.repeat(max_line_length + 1)}\n`));
  expect(pieces.map(({ length }) => length)).toEqual([max_line_length, 1]);
});

test('replaces NUL and invalid UTF-8, which the store cannot hold', () => {
  expect(lineSplitter().push(Buffer.from([0x61, 0x00, 0xff, 0x0a]))).toEqual(['a\uFFFD\uFFFD']);
});
