import { expect, it } from 'vitest';
import type { Node } from '../../../../src/contract/node.ts';
import { nextActions } from './attention-actions.ts';

it('the release of a machine is labelled as in its dialog', () => {
  const releaseOf = (occupancy: Node['occupancy']) => {
    const node = { status: 'quarantined', allocation_id: 'alloc_1', occupancy } as Node;
    return nextActions({ kind: 'node', node })
      .filter(({ label }) => label === 'Release' || label === 'Cancel')
      .map(({ label, open }) => [label, open().button]);
  };
  expect(releaseOf('reserved')).toEqual([['Cancel', 'Cancel']]);
  expect(releaseOf('occupied')).toEqual([['Release', 'Release']]);
});

it('offers only what the server offers for the machine', () => {
  const node = { status: 'quarantined', allocation_id: null, occupancy: 'free', verdict: null } as Node;
  const offers = [
    { action: 'reactivate', does: '', open: false, why_not: 'Its instance is fenced.' },
    { action: 're-enroll', does: '', open: true, why_not: null },
    { action: 'retire', does: '', open: true, why_not: null },
  ] as const;
  expect(nextActions({ kind: 'node', node }, offers).map(({ label, helps }) => [label, helps])).toEqual([
    ['Re-enroll', true],
    ['Retire', false],
  ]);
});
