import { expect, it } from 'vitest';
import type { Verdict } from '../../../../src/contract/node.ts';
import { type NodeActionName, nodeActions } from '../../../../src/lifecycle/actions/actions.ts';
import { nodeStatusNames } from '../../../../src/lifecycle/model/states.ts';
import { isWayOut } from '../actions/words.ts';
import { availableSteps, leadingOffers, nextStepsFor } from './next-steps.ts';

const occupancies = ['free', 'reserved', 'occupied', 'cleanup'] as const;
const offer = (action: NodeActionName, open = true) => ({ action, open });
const certain = { certain: true } as Verdict;

it('names only actions that the action table allows in that status', () => {
  for (const status of nodeStatusNames)
    for (const occupancy of occupancies)
      for (const name of nextStepsFor({ status, occupancy, verdict: null }))
        if (name !== 'release') expect(nodeActions[name].from, `${name} on a ${status} node`).toContain(status);
});

it('offers no extension after a certain failure', () => {
  const failed = { status: 'failed', occupancy: 'reserved' } as const;
  expect(nextStepsFor({ ...failed, verdict: null })).toEqual(['retry', 'extend-deadline']);
  expect(nextStepsFor({ ...failed, verdict: certain })).toEqual(['retry']);
});

it('the node page offers the available actions of Attention and every other way out', () => {
  const forced = { status: 'quarantined', occupancy: 'cleanup', verdict: null } as const;
  const offers = [offer('retire'), offer('reimage'), offer('probe'), offer('reactivate', false)];
  expect(leadingOffers(forced, offers, isWayOut).map(({ action }) => action)).toEqual(['reimage', 'retire']);
  const cleaning = { status: 'cleaning', occupancy: 'cleanup', verdict: null } as const;
  expect(leadingOffers(cleaning, [offer('retry-release')], isWayOut)).toEqual([offer('retry-release')]);
  const silent = { status: 'offline', occupancy: 'reserved', verdict: null } as const;
  expect(leadingOffers(silent, [offer('extend-deadline'), offer('probe')], isWayOut)).toEqual([offer('probe')]);
});

it('lists available steps only, re-enroll in place of a closed first step, a discouraged retry last', () => {
  const fenced = { status: 'quarantined', occupancy: 'free', verdict: null } as const;
  const offers = [offer('reactivate', false), offer('re-enroll'), offer('retire')];
  expect(availableSteps(fenced, offers, isWayOut)).toEqual(['re-enroll', 'retire']);
  expect(availableSteps(fenced, [offer('reactivate'), ...offers.slice(1)], isWayOut)).toEqual(['reactivate', 'retire']);
  const silent = { status: 'offline', occupancy: 'occupied', verdict: null } as const;
  const silentOffers = [offer('extend-deadline'), offer('re-enroll'), offer('probe', false)];
  expect(availableSteps(silent, silentOffers, isWayOut)).toEqual(['extend-deadline', 'release']);
  const failed = { status: 'failed', occupancy: 'reserved', verdict: null } as const;
  const repeated = [offer('extend-deadline'), offer('retry')];
  expect(availableSteps(failed, repeated, isWayOut)).toEqual(['extend-deadline', 'retry']);
  expect(availableSteps(failed, repeated.toReversed(), isWayOut)).toEqual(['retry', 'extend-deadline']);
});
