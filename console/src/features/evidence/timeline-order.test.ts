import { expect, it } from 'vitest';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import { newestFirst } from './timeline-order.ts';

const fact = (cursor: string, ms: string) => ({ cursor, at: `2026-01-01T12:00:00.${ms}Z` }) as Evidence;

it('shows facts by time, and those of one millisecond in commit order', () => {
  const facts = [fact('9-4', '003'), fact('9-3', '003'), fact('8-2', '005'), fact('7-1', '001')];
  expect(newestFirst(facts).map(({ cursor }) => cursor)).toEqual(['8-2', '9-4', '9-3', '7-1']);
});
