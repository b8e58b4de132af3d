import { expect, test } from 'vitest';
import { registerStop, stopLeftovers } from './left-running.ts';

test('stops each registered service once, whether or not the test file stopped it', async () => {
  const stoppedNames: string[] = [];
  const first = registerStop(async () => void stoppedNames.push('first'));
  registerStop(async () => void stoppedNames.push('second'));
  await first();
  await first();
  await stopLeftovers();
  await stopLeftovers();
  expect(stoppedNames).toEqual(['first', 'second']);
});
