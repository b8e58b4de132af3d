import { expect, test } from 'vitest';
import { createScriptHider, describeScriptEnd, hiddenScript } from './pool-scripts.ts';

test('hides the scripts of the pool in a command line, but not other programs', () => {
  const hide = createScriptHider(['export KEY=plum\nrun $KEY', null, undefined, '', '--key plum serve']);
  expect(hide('/bin/sh -c export KEY=plum\nrun $KEY')).toBe(`/bin/sh -c ${hiddenScript}`);
  expect(hide('worker --key plum serve')).toBe(`worker ${hiddenScript}`);
  expect(createScriptHider(['10'])('sleep 10')).toBe('sleep 10');
  expect(hide('python train.py')).toBe('python train.py');
});

test('describes how a script ended, with its name and its last output lines', () => {
  expect(describeScriptEnd('clean', 'exited with code 3', ['checking the disk', ' ', 'disk is busy '])).toBe(
    'clean exited with code 3: checking the disk · disk is busy',
  );
  expect(describeScriptEnd('setup', 'was killed after 60 s', [])).toBe('setup was killed after 60 s');
});
