import { expect, test } from 'vitest';
import { describeRemaining } from './agent-end.ts';

test.for([
  [1, '1 process is left'],
  [2, '2 processes are left'],
] as const)('counts %i as "%s"', ([count, text]) => {
  expect(describeRemaining(count)).toBe(text);
});
