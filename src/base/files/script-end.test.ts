import { expect, test } from 'vitest';
import { scriptEnd } from './script-end.ts';

test('names the script, its exit and its last output lines', () => {
  expect(scriptEnd('clean', 'exited with code 3', ['checking the disk', ' ', 'disk is busy '])).toBe(
    'clean exited with code 3: checking the disk · disk is busy',
  );
  expect(scriptEnd('setup', 'was ended after 60 s', [])).toBe('setup was ended after 60 s');
});
