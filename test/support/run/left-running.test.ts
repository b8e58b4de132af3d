import { expect, test } from 'vitest';
import { remembered, stopWhatIsLeft } from './left-running.ts';

test('what was left running is stopped, and what was stopped is not stopped again', async () => {
  const stopped: string[] = [];
  const first = remembered(async () => void stopped.push('first'));
  remembered(async () => void stopped.push('second'));
  await first();
  await first();
  await stopWhatIsLeft();
  await stopWhatIsLeft();
  expect(stopped).toEqual(['first', 'second']);
});
