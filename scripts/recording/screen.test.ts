import { expect, test } from 'vitest';
import { Screen } from './screen.ts';

const screenAfter = (...texts: string[]) => {
  const screen = new Screen();
  for (const text of texts) screen.write(text);
  return screen.lines().map((line) => line.map(({ text }) => text).join(''));
};

test('shows the last redraw of a live view', () => {
  expect(screenAfter('head\r\n', 'step 1\x1b[K\r\n', '\x1b[J\x1b[1A\rstep 2\x1b[K\r\nmore\r\n')).toEqual([
    'head',
    'step 2',
    'more',
  ]);
  expect(screenAfter('one\r\ntwo\r\nthree\r\n', '\x1b[3A\rlast\x1b[K\r\n\x1b[J')).toEqual(['last']);
});

test('keeps colours with the text they apply to', () => {
  const screen = new Screen();
  screen.write('\x1b[32m✔\x1b[0m \x1b[1mdone\x1b[0m\r\n');
  expect(screen.lines()).toEqual([
    [
      { text: '✔', codes: [32] },
      { text: ' ', codes: [] },
      { text: 'done', codes: [1] },
    ],
  ]);
});

test('refuses unknown control sequences and control characters', () => {
  expect(() => screenAfter('\x1b[5B')).toThrow('unknown control sequence 5B');
  expect(() => screenAfter('\t')).toThrow('unknown control character');
});
