import { describe, expect, test } from 'vitest';
import { liveNodeStatuses, type NodeStatus, nodeStatuses, nodeStatusNames } from '../model/states.ts';
import { findEdge, nodeEdges } from '../model/transitions.ts';
import { tenantOnly, wholeFleet } from '../visibility.ts';
import {
  type ActionSubject,
  type NodeActionName,
  nodeActionNames,
  nodeActions,
  offeredActions,
  whyNotOnNode,
} from './actions.ts';

const subject = (overrides: Partial<ActionSubject> = {}): ActionSubject => ({
  status: 'starting',
  node_instance_id: 'inst_1',
  occupancy: 'free',
  allocation_status: null,
  endpoint: null,
  deadline_at: new Date(0),
  held: { rule: 'start-deadline' },
  instance_fenced: null,
  taken_down_by: null,
  external: false,
  ...overrides,
});
const operator = { role: 'operator', visibility: wholeFleet } as const;
const offer = (action: string, overrides: Partial<ActionSubject> = {}) =>
  offeredActions(subject(overrides), operator).find((each) => each.action === action);

test('offers every action with its description and availability', () => {
  const offered = offeredActions(subject(), operator);
  expect(offered.map(({ action }) => action)).toEqual(nodeActionNames);
  for (const { action, does, open, why_not } of offered) {
    expect(does, action).toBe(nodeActions[action].does);
    expect(does, action).not.toBe('');
    expect(open, action).toBe(why_not === null);
  }
});

test('offers exactly the actions that would be accepted', () => {
  for (const status of nodeStatusNames)
    for (const { action, why_not } of offeredActions(subject({ status }), operator))
      expect(whyNotOnNode(action, subject({ status })), `${action} ${status}`).toBe(why_not);
});

test('offers no node action to a tenant', () => {
  for (const each of offeredActions(subject(), { role: 'admin', visibility: tenantOnly('acme') }))
    expect(each).toMatchObject({ open: false, why_not: 'Only operators of the whole fleet may do this.' });
});

/** Where each action is available on a free node with a deadline, a held verdict and no address. */
const availableWhenFree: Record<NodeActionName, readonly NodeStatus[]> = {
  retry: [],
  'extend-deadline': ['provisioning', 'starting', 'offline', 'failed', 'draining', 'cleaning'],
  drain: ['ready', 'degraded', 'offline'],
  undrain: ['draining'],
  quarantine: ['provisioning', 'starting', 'ready', 'degraded', 'offline', 'failed', 'draining', 'cleaning'],
  reactivate: ['quarantined'],
  're-enroll': ['offline', 'failed', 'quarantined'],
  reimage: ['ready', 'degraded', 'offline', 'failed', 'draining', 'quarantined'],
  retire: ['provisioning', 'starting', 'ready', 'degraded', 'offline', 'failed', 'draining', 'quarantined'],
  'retry-release': [],
  'force-release': [],
  probe: ['starting', 'ready', 'degraded'],
  'collect-diagnostics': liveNodeStatuses,
  'accept-key': [],
  'apply-held-verdict': ['provisioning', 'starting', 'ready', 'degraded', 'offline', 'failed', 'draining', 'cleaning'],
};

test.each(nodeActionNames)('%s is available on a free node exactly in the listed statuses', (action) => {
  const statuses = nodeStatusNames.filter((status) => offer(action, { status })?.open);
  expect(statuses.toSorted()).toEqual(availableWhenFree[action].toSorted());
});

test.each([
  ['drain', 'draining', 'drain'],
  ['undrain', 'ready', 'undrain'],
  ['quarantine', 'quarantined', 'quarantine'],
  ['reactivate', 'starting', 'reactivate'],
  ['retire', 'cleaning', 'retire'],
  ['reimage', 'cleaning', 'reimage'],
  ['re-enroll', 'provisioning', 're-enroll'],
] as const)('%s has an edge to %s from every status in which it is available', (action, to, by) => {
  for (const from of availableWhenFree[action])
    expect(findEdge(nodeEdges, from, to, by), `${from} → ${to}`).toBeDefined();
});

test('advises to reactivate a machine that was quarantined after its drain', () => {
  expect(offer('undrain', { status: 'quarantined' })?.why_not).toContain('reactivate it instead');
  expect(offer('reactivate', { status: 'quarantined' })?.open).toBe(true);
});

test('refuses to undrain a machine whose instance is fenced', () => {
  const fenced = { status: 'draining', instance_fenced: 'the machine is enrolling again' } as const;
  expect(offer('undrain', fenced)).toMatchObject({
    open: false,
    why_not: expect.stringContaining('is enrolling again'),
  });
  expect(offer('retire', fenced)?.open).toBe(true);
});

describe('a machine in use', () => {
  test.each([
    ['reserved', 'provisioning', 'An allocation waits for it; release the allocation first.'],
    ['occupied', 'active', 'An allocation uses it; release the allocation first.'],
    ['cleanup', 'releasing', 'Its last allocation is still being released; wait until the release ends.'],
  ] as const)('cannot be retired while it is %s', (occupancy, allocation_status, why_not) => {
    expect(offer('retire', { occupancy, allocation_status })).toMatchObject({ open: false, why_not });
  });

  test('cannot be reimaged', () => {
    const status = 'ready';
    expect(offer('reimage', { status, occupancy: 'occupied' })).toMatchObject({
      open: false,
      why_not: 'An allocation uses it; release the allocation first.',
    });
  });

  test.each([
    ['reserved', 'failed', 'A failed allocation still holds it; release the allocation first.'],
    ['cleanup', 'releasing', 'Its last allocation is still being released; wait until the release ends.'],
    [
      'cleanup',
      'release_failed',
      'Its last allocation left residue that is not proven gone; release the allocation first.',
    ],
  ] as const)('cannot be reactivated in %s for a %s allocation', (occupancy, allocation_status, why_not) => {
    const quarantined = { status: 'quarantined', occupancy, allocation_status } as const;
    expect(offer('reactivate', quarantined)).toMatchObject({ open: false, why_not });
  });

  test('can be reactivated for its active allocation, but not reimaged, retired or re-enrolled', () => {
    const quarantined = { status: 'quarantined', occupancy: 'occupied', allocation_status: 'active' } as const;
    expect(offer('reactivate', quarantined)).toMatchObject({ open: true, why_not: null });
    expect(offer('reactivate', { ...quarantined, instance_fenced: 'deleted as residue' })?.open).toBe(false);
    for (const action of ['reimage', 'retire', 're-enroll'] as const)
      expect(offer(action, quarantined)).toMatchObject({
        open: false,
        why_not:
          'An allocation still uses it. Reactivate the machine to serve it again, or release the allocation first.',
      });
  });

  test('cannot be reactivated during its teardown', () => {
    expect(offer('reactivate', { status: 'quarantined', taken_down_by: 'op_1' })).toMatchObject({
      open: false,
      why_not: 'Operation op_1 is still tearing it down; wait until it ends.',
    });
  });

  test('cannot be reactivated if its instance is fenced', () => {
    expect(offer('reactivate', { status: 'quarantined', instance_fenced: 'deleted as residue' })).toMatchObject({
      open: false,
      why_not: 'Its instance is fenced (deleted as residue); re-enroll it, reimage it or retire it.',
    });
    expect(offer('reactivate', { status: 'quarantined', node_instance_id: null })).toMatchObject({
      open: false,
      why_not: 'It has no instance; re-enroll it, reimage it or retire it.',
    });
  });

  test('can be retried only for a waiting allocation', () => {
    expect(offer('retry', { status: 'failed', occupancy: 'reserved' })).toMatchObject({ open: true });
    expect(offer('retry', { status: 'failed' })).toMatchObject({ open: false, why_not: 'No allocation waits for it.' });
  });

  test('offers to retry its release only after the release failed', () => {
    for (const status of nodeStatusNames)
      expect(offer('retry-release', { status, allocation_status: 'release_failed' })?.open, status).toBe(
        status !== 'retired',
      );
    expect(offer('retry-release')).toMatchObject({ open: false, why_not: 'No release of its allocation has failed.' });
    expect(offer('retry-release', { allocation_status: 'active' })).toMatchObject({
      open: false,
      why_not: 'No release of its allocation has failed.',
    });
    expect(offer('retry-release', { allocation_status: 'releasing' })).toMatchObject({
      open: false,
      why_not: 'The release of its allocation is under way; it has not failed.',
    });
  });

  test('offers to force a release only if one runs or has failed', () => {
    for (const status of nodeStatusNames)
      for (const allocation_status of ['releasing', 'release_failed'] as const)
        expect(offer('force-release', { status, allocation_status })?.open, status).toBe(status !== 'retired');
    for (const allocation_status of [null, 'provisioning', 'active', 'failed'] as const)
      expect(offer('force-release', { allocation_status })).toMatchObject({
        open: false,
        why_not: 'No release of its allocation runs or has failed; release the allocation first.',
      });
  });
});

describe('a machine that lost its credential', () => {
  const why = (overrides: Partial<ActionSubject>) => offer('re-enroll', { status: 'offline', ...overrides })?.why_not;
  test('can re-enroll with its allocation if it is external', () => {
    expect(why({ occupancy: 'occupied', external: true })).toBeNull();
    expect(why({ status: 'failed', occupancy: 'reserved', external: true })).toBeNull();
    expect(why({ status: 'quarantined', occupancy: 'occupied', external: true })).toMatch(
      /release the allocation first/,
    );
    expect(why({ occupancy: 'cleanup', allocation_status: 'releasing', external: true })).toMatch(
      /still being released/,
    );
    expect(why({ status: 'quarantined', occupancy: 'cleanup', allocation_status: null })).toMatch(/settle the residue/);
  });
  test('cannot re-enroll with an allocation if a driver launches it', () => {
    expect(why({ occupancy: 'occupied' })).toMatch(/launch another machine.*; release the allocation first/);
    expect(why({ status: 'failed', occupancy: 'reserved' })).toMatch(/retry the allocation to get a new instance/);
  });
});

describe('an external machine', () => {
  test('cannot be reimaged by a driver', () => {
    const offered = offer('reimage', { status: 'ready', external: true });
    expect(offered).toMatchObject({ open: false, why_not: expect.stringContaining('then re-enroll it') });
  });
});

describe('residue of a forced release', () => {
  const withResidue = { status: 'quarantined', occupancy: 'cleanup', allocation_status: null } as const;

  test('prevents reactivation, but not teardown', () => {
    expect(offer('reactivate', withResidue)).toMatchObject({
      open: false,
      why_not:
        'Its last allocation left residue that is not proven gone: release that allocation, settle the residue, or reimage or retire the machine.',
    });
    expect(offer('retire', withResidue)).toMatchObject({ open: true });
  });

  test('does not count as a release to retry or force', () => {
    for (const action of ['retry-release', 'force-release'])
      expect(offer(action, withResidue)?.open, action).toBe(false);
  });
});

describe('a deadline', () => {
  test('can be extended in every status that has one', () => {
    for (const status of nodeStatusNames)
      expect(offer('extend-deadline', { status })?.open, status).toBe(nodeStatuses[status].deadline !== null);
  });

  test('cannot be extended if it is not set or the status has none, and the offer says why', () => {
    expect(offer('extend-deadline', { deadline_at: null })).toMatchObject({
      open: false,
      why_not: 'It has no deadline.',
    });
    expect(offer('extend-deadline', { status: 'ready' })).toMatchObject({
      open: false,
      why_not: 'It is ready; this needs provisioning, starting, offline, failed, draining, cleaning.',
    });
  });
});

describe('a held verdict', () => {
  test('can be applied wherever a rule may decide', () => {
    for (const status of nodeStatusNames) {
      const kind = nodeStatuses[status].class;
      expect(offer('apply-held-verdict', { status })?.open, status).toBe(kind === 'moving' || kind === 'serving');
    }
  });

  test('cannot be applied if there is none', () => {
    expect(offer('apply-held-verdict', { held: null })).toMatchObject({
      open: false,
      why_not: 'No verdict is held.',
    });
  });
});

describe('a probe', () => {
  test('needs an instance', () => {
    expect(offer('probe', { node_instance_id: null })).toMatchObject({
      open: false,
      why_not: 'It has no instance.',
    });
  });

  test('needs an address, or an agent that can answer', () => {
    const fenced = 'its agent gets no probe task while it is fenced';
    const silences: Partial<Record<NodeStatus, string>> = {
      ...{ failed: fenced, draining: fenced, cleaning: fenced, quarantined: fenced },
      offline: 'its agent sends no heartbeats',
      provisioning: 'its agent has not registered',
    };
    for (const status of liveNodeStatuses) {
      const silence = silences[status];
      expect(offer('probe', { status, endpoint: 'http://pier' })).toMatchObject({ open: true });
      expect(offer('probe', { status, endpoint: null })).toMatchObject({
        open: silence === undefined,
        why_not: silence ? `It has no address to probe, and ${silence}.` : null,
      });
      expect(offer('probe', { status, endpoint: null, agentless: true })).toMatchObject({
        open: false,
        why_not: 'It has no address to probe, and no agent runs on it.',
      });
    }
  });
});

describe('diagnostics', () => {
  test('need an instance', () => {
    expect(offer('collect-diagnostics', { node_instance_id: null })).toMatchObject({
      open: false,
      why_not: 'It has no instance.',
    });
  });

  test('of a retired machine cannot be collected, and the offer refers to its timeline', () => {
    expect(offer('collect-diagnostics', { status: 'retired' })).toMatchObject({
      open: false,
      why_not: 'It is retired; its diagnostics were saved before it was removed: see evidence.frozen in its timeline.',
    });
  });
});

test('advises to retire an external machine with residue, and never to use an action that is refused', () => {
  const withResidue = { status: 'quarantined', occupancy: 'cleanup', external: true } as const;
  for (const action of ['reactivate', 're-enroll', 'reimage'] as const) {
    expect(whyNotOnNode(action, subject(withResidue)), action).toMatch(/[Rr]etire it.* join again/);
    expect(whyNotOnNode(action, subject({ ...withResidue, external: false })) ?? '', action).not.toMatch(/join again/);
  }
  expect(whyNotOnNode('retire', subject(withResidue))).toBe(null);
  expect(whyNotOnNode('reimage', subject({ ...withResidue, occupancy: 'free' }))).toMatch(/then re-enroll it/);
});
