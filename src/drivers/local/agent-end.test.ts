import { expect, test } from 'vitest';
import { processesLeft } from './agent-end.ts';

test.for([
  [1, '1 process is left'],
  [2, '2 processes are left'],
] as const)('counts %i as "%s"', ([count, text]) => {
  expect(processesLeft(count)).toBe(text);
});
