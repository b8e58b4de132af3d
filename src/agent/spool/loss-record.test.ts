import { expect, test } from 'vitest';
import { isLossRecord, lossLine } from './loss-record.ts';

test('says how many lines were lost and why', () => {
  expect(lossLine(3, 'the disk is full')).toBe('dropped 3 lines: the disk is full');
  expect(lossLine(1, 'the disk is full')).toBe('dropped 1 line: the disk is full');
  expect(lossLine(null, 'the disk is full')).toBe('dropped lines, nobody knows how many: the disk is full');
});

test('is recognised, and no output of the machine passes for it', () => {
  for (const count of [1, 3, null]) expect(isLossRecord('agent', lossLine(count, 'x'))).toBe(true);
  expect(isLossRecord('stdout', lossLine(3, 'x'))).toBe(false);
  expect(isLossRecord('agent', '{"msg":"dropped 3 lines"}')).toBe(false);
});
