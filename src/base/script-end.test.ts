import { expect, test } from 'vitest';
import { scriptEnd } from './script-end.ts';

test('which it was, how it ended, and its last words, each apart from the other', () => {
  expect(
    scriptEnd('clean', 'test ! -e "$LOCK"', 'exited with code 3', ['checking the disk', ' ', 'disk is busy ']),
  ).toBe('clean (`test ! -e "$LOCK"`) exited with code 3: checking the disk · disk is busy');
});

test('a long text is cut to a line', () => {
  const script = `cd /scratch\n${'rm -rf it && '.repeat(9)}`;
  expect(scriptEnd('clean', script, 'was ended after 60 s', [])).toBe(
    'clean (`cd /scratch rm -rf it && rm -rf it && rm -rf it && rm -rf i…`) was ended after 60 s',
  );
  expect(scriptEnd('clean', 'x'.repeat(60), 'exited', [])).toBe(`clean (\`${'x'.repeat(60)}\`) exited`);
});
