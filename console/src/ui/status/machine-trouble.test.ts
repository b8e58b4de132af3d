import { expect, it } from 'vitest';
import type { Node } from '../../../../src/contract/node.ts';
import { reasonOf, troubleByAllocation, troubleOf, troubleWords } from './machine-trouble.ts';

it('only an active allocation is in trouble with its machine', () => {
  const nodes = [
    { allocation_id: 'silent', status: 'offline', status_since: 'then' },
    { allocation_id: 'aside', status: 'quarantined', status_since: 'later' },
    { allocation_id: 'well', status: 'ready' },
    { allocation_id: null, status: 'offline' },
  ] as Node[];
  const troubles = troubleByAllocation(nodes);
  const of = (allocation_id: string, status: 'active' | 'failed') => troubleOf({ allocation_id, status }, troubles);
  expect([of('silent', 'active'), of('aside', 'active'), of('well', 'active')]).toEqual([
    { status: 'offline', since: 'then' },
    { status: 'quarantined', since: 'later' },
    null,
  ]);
  expect(of('silent', 'failed')).toBeNull();
});

it('the trouble replaces the reason of the allocation, whatever that says', () => {
  const ready = { reason: 'the node reported ready' };
  const worded = { reason: 'its machine is fine' };
  for (const allocation of [ready, worded]) {
    expect(reasonOf(allocation, { status: 'quarantined', since: 'later' })).toBe(troubleWords.quarantined.sentence);
    expect(reasonOf(allocation, null)).toBe(allocation.reason);
  }
});
