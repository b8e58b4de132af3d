import { expect, test } from 'vitest';
import { hiddenScript, withoutScripts } from './hidden-scripts.ts';

test('shows programs in a process list, but not the scripts of the pool', () => {
  const hide = withoutScripts(['export KEY=plum\nrun $KEY', null, undefined, '', '--key plum serve']);
  expect(hide('/bin/sh -c export KEY=plum\nrun $KEY')).toBe(`/bin/sh -c ${hiddenScript}`);
  expect(hide('worker --key plum serve')).toBe(`worker ${hiddenScript}`);
  expect(withoutScripts(['10'])('sleep 10')).toBe('sleep 10');
  expect(hide('python train.py')).toBe('python train.py');
});
