import { expect, it } from 'vitest';
import { humanize, toSentence } from './text.ts';

it('a code becomes words', () => {
  expect(humanize('freeze-evidence')).toBe('Freeze evidence');
  expect(humanize('arm_create')).toBe('Arm create');
});

it('a clause becomes a sentence, and a sentence stays one', () => {
  expect(toSentence('it takes work again')).toBe('It takes work again.');
  expect(toSentence('It has no deadline.')).toBe('It has no deadline.');
});
