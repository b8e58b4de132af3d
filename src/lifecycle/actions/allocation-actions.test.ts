import { describe, expect, test } from 'vitest';
import { type AllocationStatus, allocationStatusNames } from '../model/states.ts';
import { allocationEdges, findEdge } from '../model/transitions.ts';
import { tenantOnly, wholeFleet } from '../visibility.ts';
import type { ActionSubject } from './actions.ts';
import {
  type AllocationActionName,
  type AllocationSubject,
  allocationActionNames,
  allocationActions,
  offeredAllocationActions,
  whyNotOnAllocation,
} from './allocation-actions.ts';

const machine = (overrides: Partial<ActionSubject> = {}): ActionSubject => ({
  status: 'starting',
  node_instance_id: 'inst_1',
  occupancy: 'reserved',
  allocation_status: 'provisioning',
  deadline_at: new Date(0),
  held: { rule: 'start-deadline' },
  endpoint: null,
  instance_fenced: null,
  taken_down_by: null,
  external: false,
  ...overrides,
});
const subject = (overrides: Partial<AllocationSubject> = {}): AllocationSubject => ({
  status: 'provisioning',
  deadline_at: new Date(0),
  node_id: 'node_1',
  node: machine(),
  ...overrides,
});
const operator = { role: 'operator', visibility: wholeFleet } as const;
const availableIn = (action: AllocationActionName, overrides: Partial<AllocationSubject> = {}) =>
  allocationStatusNames.filter((status) => whyNotOnAllocation(action, subject({ ...overrides, status })) === null);

test('offers every action with its description and availability', () => {
  for (const status of allocationStatusNames) {
    const offered = offeredAllocationActions(subject({ status }), operator);
    expect(offered.map(({ action }) => action)).toEqual(allocationActionNames);
    for (const { action, does, open, why_not } of offered) {
      expect(does).toBe(allocationActions[action].does);
      expect(does).not.toBe('');
      expect(open, action).toBe(why_not === null);
      expect(why_not, action).toBe(whyNotOnAllocation(action, subject({ status })));
    }
  }
});

/**
 * Where each action is available with a starting machine that has a deadline and a held verdict.
 */
const availableWithMachine: Record<AllocationActionName, readonly AllocationStatus[]> = {
  retry: ['failed'],
  release: ['requested', 'provisioning', 'active', 'failed'],
  'retry-release': ['release_failed'],
  'force-release': ['releasing', 'release_failed'],
  'extend-deadline': ['requested', 'provisioning', 'releasing', 'failed'],
  'accept-key': [],
  'apply-held-verdict': allocationStatusNames,
  probe: allocationStatusNames,
  'collect-diagnostics': allocationStatusNames,
};

test.each(allocationActionNames)('%s is available exactly in the listed statuses', (action) => {
  expect(availableIn(action).toSorted()).toEqual(availableWithMachine[action].toSorted());
});

/** Without a machine, only actions that need no machine are available. */
const availableWithoutMachine: Record<AllocationActionName, readonly AllocationStatus[]> = {
  ...availableWithMachine,
  'extend-deadline': ['requested', 'releasing'],
  'apply-held-verdict': [],
  probe: [],
  'collect-diagnostics': [],
};

test.each(allocationActionNames)('%s is available without a machine exactly in the listed statuses', (action) => {
  expect(availableIn(action, { node: null }).toSorted()).toEqual(availableWithoutMachine[action].toSorted());
  expect(availableIn(action, { node: null, node_id: null }).toSorted()).toEqual(
    availableWithoutMachine[action].toSorted(),
  );
});

test.each([
  ['retry', 'provisioning', 'retry'],
  ['release', 'releasing', 'release'],
  ['retry-release', 'releasing', 'release'],
  ['force-release', 'released', 'force-release'],
] as const)('%s has an edge to %s from every status in which it is available', (action, to, by) => {
  for (const from of availableWithMachine[action])
    expect(findEdge(allocationEdges, from, to, by), `${from} → ${to}`).toBeDefined();
});

test('lets a tenant retry and release, and take no other action', () => {
  const own = allocationActionNames.filter((action) => allocationActions[action].for === 'tenant');
  expect(own).toEqual(['retry', 'release', 'retry-release']);
  const offered = offeredAllocationActions(subject({ status: 'failed' }), {
    role: 'operator',
    visibility: tenantOnly('acme'),
  });
  expect(offered.filter(({ open }) => open).map(({ action }) => action)).toEqual(['retry', 'release']);
});

describe('the reason why an action is not available', () => {
  test.each<[AllocationActionName, Partial<AllocationSubject>, string | null]>([
    ['release', { status: 'releasing' }, 'Its release is under way.'],
    ['release', { status: 'release_failed' }, 'Its release failed; use retry-release.'],
    ['release', { status: 'released' }, 'It is released.'],
    ['retry', { status: 'active' }, 'It is active; this needs failed.'],
    ['retry-release', { status: 'releasing' }, 'Its release is under way; it has not failed.'],
    ['retry-release', { status: 'active' }, 'It is active; this needs release_failed.'],
    ['force-release', { status: 'active' }, 'It is active; this needs releasing, release_failed.'],
    ['force-release', { status: 'released' }, 'It is released.'],
    ['extend-deadline', { status: 'requested', deadline_at: null }, 'It has no deadline.'],
    ['extend-deadline', { status: 'releasing', deadline_at: null }, 'It has no deadline.'],
    ['extend-deadline', { node: machine({ deadline_at: null }) }, 'Its machine: It has no deadline.'],
    ['extend-deadline', { status: 'failed', node: null }, 'It no longer has its machine.'],
    ['extend-deadline', { status: 'failed', node: null, node_id: null }, 'It has no machine.'],
    ['probe', { node: null }, 'It no longer has its machine.'],
    [
      'collect-diagnostics',
      { node: null },
      'It no longer has its machine; its diagnostics were saved before it was removed: see evidence.frozen in its timeline.',
    ],
    ['accept-key', {}, 'Its machine: Its key is not in doubt.'],
    ['accept-key', { node: null }, 'It no longer has its machine.'],
    ['accept-key', { node: machine({ key_unproven: true }) }, null],
    ['apply-held-verdict', { node: null }, 'It no longer has its machine.'],
    ['apply-held-verdict', { node: null, node_id: null }, 'It has no machine.'],
    ['apply-held-verdict', { node: machine({ held: null }) }, 'Its machine: No verdict is held.'],
  ])('%s of %j', (action, overrides, why_not) => {
    expect(whyNotOnAllocation(action, subject(overrides))).toBe(why_not);
  });

  test('extend-deadline checks the deadline of the allocation itself while it is requested or releasing', () => {
    for (const status of ['requested', 'releasing'] as const)
      expect(
        whyNotOnAllocation('extend-deadline', subject({ status, node: machine({ deadline_at: null }) })),
      ).toBeNull();
  });

  test('extend-deadline checks the deadline of the machine while the allocation is provisioning or failed', () => {
    for (const status of ['provisioning', 'failed'] as const)
      expect(whyNotOnAllocation('extend-deadline', subject({ status, deadline_at: null }))).toBeNull();
  });
});
