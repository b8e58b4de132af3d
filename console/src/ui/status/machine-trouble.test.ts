import { expect, it } from 'vitest';
import type { Node } from '../../../../src/contract/node.ts';
import { reasonOf, troubleByAllocation, troubleOf, troubleWords } from './machine-trouble.ts';

it('only an active allocation shows the trouble of its machine', () => {
  const nodes = [
    { allocation_id: 'silent', status: 'offline', status_since: 'then' },
    { allocation_id: 'aside', status: 'quarantined', status_since: 'later' },
    { allocation_id: 'well', status: 'ready' },
    { allocation_id: null, status: 'offline' },
  ] as Node[];
  const troubles = troubleByAllocation(nodes);
  const troubleFor = (allocation_id: string, status: 'active' | 'failed') =>
    troubleOf({ allocation_id, status }, troubles);
  expect([troubleFor('silent', 'active'), troubleFor('aside', 'active'), troubleFor('well', 'active')]).toEqual([
    { status: 'offline', since: 'then' },
    { status: 'quarantined', since: 'later' },
    null,
  ]);
  expect(troubleFor('silent', 'failed')).toBeNull();
});

it('the trouble replaces the reason of the allocation', () => {
  const ready = { reason: 'the node reported ready' };
  const similar = { reason: 'its machine is fine' };
  for (const allocation of [ready, similar]) {
    expect(reasonOf(allocation, { status: 'quarantined', since: 'later' })).toBe(troubleWords.quarantined.sentence);
    expect(reasonOf(allocation, null)).toBe(allocation.reason);
  }
});
