import { expect, test } from 'vitest';
import { isLossRecord, lossLine } from './loss-record.ts';

test('the line names the number of lost lines and the cause', () => {
  expect(lossLine(3, 'the disk is full')).toBe('dropped 3 lines: the disk is full');
  expect(lossLine(1, 'the disk is full')).toBe('dropped 1 line: the disk is full');
  expect(lossLine(null, 'the disk is full')).toBe('dropped an unknown number of lines: the disk is full');
});

test('recognises loss records only in the stream of the agent', () => {
  for (const count of [1, 3, null]) expect(isLossRecord('agent', lossLine(count, 'x'))).toBe(true);
  expect(isLossRecord('stdout', lossLine(3, 'x'))).toBe(false);
  expect(isLossRecord('agent', '{"msg":"dropped 3 lines"}')).toBe(false);
});
