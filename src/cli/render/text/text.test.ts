/** Checks how text is measured, cut and wrapped. */
import { expect, test } from 'vitest';
import { displayWidth, flow, printable, truncate, wrap } from './text.ts';

test.each([
  ['plain', 5],
  ['Zürich', 6],
  ['\x1b[31mred\x1b[0m', 3],
  ['機械', 4],
  ['✔ ok', 4],
  ['👩‍💻', 2],
  ['🇩🇪', 2],
  ['\u{17000}', 2],
])('measures %j as %d columns', (text, width) => {
  expect(displayWidth(text)).toBe(width);
});

test('cuts text to its width with an ellipsis', () => {
  expect(truncate('provisioning', 6)).toBe('provi…');
  expect(truncate('機械機械', 4)).toBe('機…');
  expect(truncate('short', 5)).toBe('short');
  expect(truncate('gone', 0)).toBe('');
});

test('turns text from outside into one line without control sequences', () => {
  expect(printable('a\tb\r\nc\x1b[1A\x07\u202ed')).toBe('a    b  c  d');
});

test('wraps at spaces and keeps long words whole', () => {
  expect(wrap('one two three', 7)).toEqual(['one two', 'three']);
  expect(wrap('see alloc_0123456789 now', 8)).toEqual(['see', 'alloc_0123456789', 'now']);
});

test('wraps pieces without breaking them', () => {
  const pieces = ['rule liveness', 'owner: node', 'correlation_id 4bf92f35'];
  expect(flow(pieces, 80)).toEqual(['rule liveness · owner: node · correlation_id 4bf92f35']);
  expect(flow(pieces, 30)).toEqual(['rule liveness · owner: node', 'correlation_id 4bf92f35']);
  expect(flow([], 30)).toEqual([]);
});
