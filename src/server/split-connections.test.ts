import { expect, test } from 'vitest';
import { maxProbes } from '../store/pg/connections/lost-answers.ts';
import { splitConnections } from './split-connections.ts';

test.each([
  [29, { statements: 16, engine: 10 }],
  [12, { statements: 6, engine: 3 }],
])('divides %i connections without exceeding them', (total, split) => {
  expect(splitConnections(total)).toEqual(split);
  expect(split.statements + split.engine + maxProbes + 1).toBe(total);
});
