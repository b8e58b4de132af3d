import { describe, expect, it } from 'vitest';
import { nodeActionNames, offeredActions } from '../../../../src/lifecycle/actions/actions.ts';
import { allocationActionNames } from '../../../../src/lifecycle/actions/allocation-actions.ts';
import { wholeFleet } from '../../../../src/lifecycle/visibility.ts';
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

describe('labels of actions', () => {
  it.each([...new Set([...nodeActionNames, ...allocationActionNames])])(
    '%s is labelled with its own name',
    (action) => {
      const bare = actionLabel(action)
        .toLowerCase()
        .replace(' the ', ' ')
        .replaceAll(/[^a-z]/g, '');
      expect(bare).toBe(action.replaceAll('-', ''));
    },
  );
  it('labels release as Cancel until the allocation is active', () => {
    expect(allocationActionLabel('release', 'provisioning')).toBe('Cancel');
    expect(allocationActionLabel('release', 'active')).toBe('Release');
    expect(allocationActionLabel('retry-release', 'release_failed')).toBe('Retry release');
  });
  it('extend-deadline has a field for seconds, drain one for what follows, retry none', () => {
    expect(extrasOf('extend-deadline')).toEqual(['seconds']);
    expect(extrasOf('drain')).toEqual(['drain_then']);
    expect(extrasOf('retry')).toEqual([]);
  });
});

describe('the groups of the menu', () => {
  const { available, drastic, unavailable } = groupOffers(offers);
  it('contain every offer exactly once', () => {
    expect(names([...available, ...drastic, ...unavailable]).sort()).toEqual(names([...offers]).sort());
  });
  it('separate drastic actions, and give a reason for each unavailable action', () => {
    expect(names(available)).toContain('drain');
    expect(names(drastic)).toEqual(expect.arrayContaining(['quarantine', 'reimage', 'retire']));
    expect(available.some(({ action }) => isDrastic(action))).toBe(false);
    expect(unavailable.find(({ action }) => action === 'undrain')?.why_not).toBe('It is ready; this needs draining.');
  });
});
