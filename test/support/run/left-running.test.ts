import { expect, test } from 'vitest';
import { registerStop, stopLeftovers } from './left-running.ts';

test('stops each registered service once, whether or not the test file stopped it', async () => {
  const stopped: string[] = [];
  const first = registerStop(async () => void stopped.push('first'));
  registerStop(async () => void stopped.push('second'));
  await first();
  await first();
  await stopLeftovers();
  await stopLeftovers();
  expect(stopped).toEqual(['first', 'second']);
});
