import { describe, expect, it } from 'vitest';
import { wholeFleet } from '../../../../src/base/visibility.ts';
import { nodeActionNames, offeredActions } from '../../../../src/lifecycle/actions/actions.ts';
import { allocationActionNames } from '../../../../src/lifecycle/actions/allocation-actions.ts';
import { actionLabel, allocationActionLabel, extrasOf, groupOffers, isDrastic } from './words.ts';

const subject = {
  status: 'ready',
  node_instance_id: 'inst_1',
  occupancy: 'free',
  allocation_status: null,
  deadline_at: null,
  held: null,
  endpoint: null,
  instance_fenced: null,
  taken_down_by: null,
  external: false,
} as const;

const offers = offeredActions(subject, { role: 'operator', visibility: wholeFleet });
const names = (list: { action: string }[]) => list.map(({ action }) => action);

describe('actions in words', () => {
  it.each([...new Set([...nodeActionNames, ...allocationActionNames])])('%s is called by its own name', (action) => {
    const bare = actionLabel(action)
      .toLowerCase()
      .replace(' the ', ' ')
      .replaceAll(/[^a-z]/g, '');
    expect(bare).toBe(action.replaceAll('-', ''));
  });
  it('giving back what nobody has yet is a cancel', () => {
    expect(allocationActionLabel('release', 'provisioning')).toBe('Cancel');
    expect(allocationActionLabel('release', 'active')).toBe('Release');
    expect(allocationActionLabel('retry-release', 'release_failed')).toBe('Retry release');
  });
  it('only what the wire wants is asked for', () => {
    expect(extrasOf('extend-deadline')).toEqual(['seconds']);
    expect(extrasOf('drain')).toEqual(['drain_then']);
    expect(extrasOf('retry')).toEqual([]);
  });
});

describe('the groups of the menu', () => {
  const { open, drastic, closed } = groupOffers(offers);
  it('hold every offer once', () => {
    expect(names([...open, ...drastic, ...closed]).sort()).toEqual(names([...offers]).sort());
  });
  it('set apart what takes something away, and keep what is closed with its reason', () => {
    expect(names(open)).toContain('drain');
    expect(names(drastic)).toEqual(expect.arrayContaining(['quarantine', 'reimage', 'retire']));
    expect(open.some(({ action }) => isDrastic(action))).toBe(false);
    expect(closed.find(({ action }) => action === 'undrain')?.why_not).toBe('It is ready; this needs draining.');
  });
});
