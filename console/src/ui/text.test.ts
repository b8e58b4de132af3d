import { expect, it } from 'vitest';
import { humanize, ownerWords, toSentence } from './text.ts';

it('humanize turns a code into words', () => {
  expect(humanize('freeze-evidence')).toBe('Freeze evidence');
  expect(humanize('arm_create')).toBe('Arm create');
});

it('ownerWords names a layer without underscores', () => {
  expect(ownerWords('control_plane')).toBe('owner: control plane');
});

it('toSentence capitalizes a clause and adds a full stop, but leaves a sentence unchanged', () => {
  expect(toSentence('it takes work again')).toBe('It takes work again.');
  expect(toSentence('It has no deadline.')).toBe('It has no deadline.');
});
