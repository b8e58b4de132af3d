/**
 * Tests the joint moves of a node and its allocation, and which of them need a person, a report or
 * nothing at all.
 */
import { describe, expect, test } from 'vitest';
import { type AllocationPart, type Model, movesFrom, type NodePart, slipwayModel } from './model-moves.ts';
import type { AllocationStatus, NodeStatus } from './states.ts';
import type { Cause, Edge } from './transitions.ts';

type StateName = `${NodePart}/${AllocationPart}`;

/** All moves from a state, as `kind: node/allocation by cause`. */
function moveTexts(state: StateName, model: Model = slipwayModel): string[] {
  const [node, allocation] = state.split('/') as [NodePart, AllocationPart];
  return movesFrom(model, { node, allocation }).map(
    ({ kind, to, by }) => `${kind}: ${to.node}/${to.allocation} by ${by}`,
  );
}

const movesBy = (state: StateName, ...causes: string[]) =>
  moveTexts(state).filter((move) => causes.some((cause) => move.endsWith(` by ${cause}`)));

const withoutCause = <S extends string>(edges: readonly Edge<S>[], from: S | 'new', to: S, cause: Cause): Edge<S>[] =>
  edges.map((edge) =>
    edge.from === from && edge.to === to ? { ...edge, by: edge.by.filter((by) => by !== cause) } : edge,
  );

describe('these states have exactly these moves', () => {
  test.for<[StateName, string[]]>([
    [
      'none/none',
      [
        'operator: provisioning/none by node-create',
        'chance: provisioning/none by join',
        'operator: none/requested by allocation-create',
      ],
    ],
    [
      'none/requested',
      [
        'automatic: none/failed by queue-deadline',
        'automatic: none/failed by provision-error',
        'operator: none/releasing by release',
        'automatic: provisioning/provisioning by node-assigned',
        'automatic: ready/active by node-assigned',
      ],
    ],
    [
      'none/failed',
      [
        'operator: none/releasing by release',
        'automatic: none/over by window-over',
        'view: none/none by forgotten',
        'operator: provisioning/provisioning by retry',
      ],
    ],
    [
      'cleaning/none',
      [
        'automatic: ready/none by proof',
        'automatic: provisioning/none by proof',
        'automatic: retired/none by proof',
        'automatic: quarantined/none by clean-deadline',
        'automatic: quarantined/none by clean-error',
        'operator: quarantined/none by quarantine',
        'chance: quarantined/none by drift',
      ],
    ],
    [
      'cleaning/releasing',
      [
        'operator: quarantined/releasing by quarantine',
        'chance: quarantined/releasing by drift',
        'automatic: cleaning/release_failed by release-deadline',
        'automatic: ready/released by proof',
        'automatic: retired/released by proof',
        'operator: quarantined/released by force-release',
      ],
    ],
    [
      'cleaning/release_failed',
      [
        'operator: quarantined/release_failed by quarantine',
        'chance: quarantined/release_failed by drift',
        'automatic: cleaning/releasing by release-retry',
        'operator: cleaning/releasing by release',
        'operator: quarantined/released by force-release',
      ],
    ],
    [
      'retired/releasing',
      [
        'automatic: retired/released by proof',
        'operator: retired/released by force-release',
        'automatic: retired/release_failed by release-deadline',
      ],
    ],
    [
      'none/releasing',
      [
        'automatic: none/released by proof',
        'operator: none/released by force-release',
        'automatic: none/release_failed by release-deadline',
      ],
    ],
  ])('%s', ([state, expected]) => {
    expect(moveTexts(state).sort()).toEqual(expected.sort());
  });
});

describe('a creation', () => {
  test('makes no node while an allocation waits or has failed', () => {
    expect(movesBy('none/requested', 'node-create', 'join')).toEqual([]);
    expect(movesBy('none/failed', 'node-create', 'join')).toEqual([]);
  });

  test('makes an allocation only if there is no node and no other allocation', () => {
    expect(movesBy('ready/none', 'allocation-create')).toEqual([]);
    expect(movesBy('none/requested', 'allocation-create')).toEqual([]);
  });

  test('moves an allocation and its new machine together, or neither', () => {
    const noProvision = withoutCause<NodeStatus>(slipwayModel.nodeEdges, 'new', 'provisioning', 'node-provision');
    const noAssignment = withoutCause<AllocationStatus>(
      slipwayModel.allocationEdges,
      'requested',
      'provisioning',
      'node-assigned',
    );
    const both = 'automatic: provisioning/provisioning by node-assigned';
    expect(moveTexts('none/requested')).toContain(both);
    expect(moveTexts('none/requested', { ...slipwayModel, nodeEdges: noProvision })).not.toContain(both);
    expect(moveTexts('none/requested', { ...slipwayModel, allocationEdges: noAssignment })).not.toContain(both);
  });
});

describe('a free machine', () => {
  test('is assigned to a waiting allocation at once, and to a later one on request', () => {
    expect(movesBy('none/requested', 'node-assigned')).toContain('automatic: ready/active by node-assigned');
    expect(movesBy('ready/none', 'node-assigned')).toEqual(['operator: ready/active by node-assigned']);
  });

  test.for<StateName>([
    'ready/requested',
    'ready/active',
    'ready/releasing',
    'ready/over',
    'degraded/none',
    'starting/none',
  ])('is not assigned in %s', (state) => {
    expect(movesBy(state, 'node-assigned')).toEqual([]);
  });

  test.for<[AllocationStatus, AllocationStatus, Cause]>([
    ['requested', 'provisioning', 'node-assigned'],
    ['provisioning', 'active', 'node-ready'],
  ])('is not assigned if no allocation edge leads from %s to %s', ([from, to, cause]) => {
    const allocationEdges = withoutCause<AllocationStatus>(slipwayModel.allocationEdges, from, to, cause);
    const model = { ...slipwayModel, allocationEdges };
    expect(moveTexts('ready/none', model)).not.toContain('operator: ready/active by node-assigned');
    expect(moveTexts('none/requested', model)).not.toContain('automatic: ready/active by node-assigned');
  });
});

describe('an allocation', () => {
  test('becomes active in the move that makes its node ready', () => {
    expect(movesBy('starting/provisioning', 'claim-ready', 'stuck-starting', 'probe-promotes')).toEqual([
      'chance: ready/active by claim-ready',
      'automatic: ready/active by stuck-starting',
      'chance: ready/active by probe-promotes',
    ]);
    expect(movesBy('starting/provisioning', 'node-ready')).toEqual([]);
  });

  test('fails with its node, and returns to provisioning if the machine returns while both are failed', () => {
    expect(movesBy('starting/provisioning', 'start-deadline')).toEqual(['automatic: failed/failed by start-deadline']);
    expect(movesBy('offline/active', 'offline-deadline')).toEqual(['automatic: failed/failed by offline-deadline']);
    expect(movesBy('failed/failed', 'late-registration')).toEqual([
      'chance: starting/provisioning by late-registration',
    ]);
    expect(movesBy('failed/over', 'late-registration')).toEqual(['chance: starting/over by late-registration']);
    expect(movesBy('failed/none', 'late-registration')).toEqual(['chance: starting/none by late-registration']);
  });

  test('never moves alone for causes of paired changes', () => {
    const places: StateName[] = ['provisioning/provisioning', 'ready/active', 'failed/failed', 'quarantined/failed'];
    for (const state of places) expect(movesBy(state, 'node-ready', 'node-failed', 'node-lost'), state).toEqual([]);
  });

  test('is rescued with its node when the machine enrols again', () => {
    expect(movesBy('failed/failed', 'rescue')).toEqual(['operator: provisioning/provisioning by rescue']);
    for (const state of ['quarantined/failed', 'offline/active', 'failed/over'] as StateName[])
      expect(movesBy(state, 'rescue'), state).toEqual([]);
  });
});

describe('a retry', () => {
  test('moves a failed node and its failed allocation together', () => {
    expect(movesBy('failed/failed', 'retry')).toEqual(['operator: provisioning/provisioning by retry']);
  });

  test('gives another machine to an allocation that lost its machine', () => {
    expect(movesBy('cleaning/failed', 'retry')).toEqual(['operator: provisioning/provisioning by retry']);
  });

  test.for<StateName>(['failed/none', 'failed/over', 'failed/active', 'ready/active', 'retired/over'])(
    'is not possible in %s',
    (state) => {
      expect(movesBy(state, 'retry')).toEqual([]);
    },
  );

  test('moves both or neither', () => {
    const nodeEdges = withoutCause<NodeStatus>(slipwayModel.nodeEdges, 'failed', 'provisioning', 'retry');
    const allocationEdges = withoutCause<AllocationStatus>(
      slipwayModel.allocationEdges,
      'failed',
      'provisioning',
      'retry',
    );
    const retried = 'operator: provisioning/provisioning by retry';
    expect(moveTexts('failed/failed', { ...slipwayModel, nodeEdges })).not.toContain(retried);
    expect(moveTexts('failed/failed', { ...slipwayModel, allocationEdges })).not.toContain(retried);
    expect(moveTexts('cleaning/failed', { ...slipwayModel, allocationEdges })).not.toContain(retried);
  });
});

describe('a release', () => {
  test('moves its machine to cleaning automatically once requested', () => {
    expect(movesBy('ready/releasing', 'release')).toEqual(['automatic: cleaning/releasing by release']);
    expect(movesBy('ready/active', 'release')).toEqual(['operator: ready/releasing by release']);
    expect(movesBy('ready/none', 'release')).toEqual([]);
  });

  test('ends only together with its machine, if it has one', () => {
    for (const node of ['ready', 'draining'] as const)
      expect(movesBy(`${node}/releasing`, 'proof', 'force-release'), node).toEqual([]);
    expect(movesBy('quarantined/releasing', 'proof', 'force-release').sort()).toEqual([
      'automatic: quarantined/released by proof',
      'automatic: retired/released by proof',
      'operator: quarantined/released by force-release',
    ]);
    expect(movesBy('retired/release_failed', 'force-release')).toEqual(['operator: retired/released by force-release']);
  });

  test('owns the cleanup, so nothing else ends it', () => {
    for (const allocation of ['releasing', 'release_failed'] as const)
      expect(movesBy(`cleaning/${allocation}`, 'clean-deadline', 'clean-error'), allocation).toEqual([]);
    for (const allocation of ['none', 'failed', 'released', 'over'] as const)
      expect(movesBy(`cleaning/${allocation}`, 'clean-deadline', 'clean-error'), allocation).toHaveLength(2);
  });
});

describe('a finished allocation', () => {
  test.for<StateName>(['ready/released', 'ready/over', 'none/over', 'cleaning/failed', 'none/failed'])(
    'is forgotten in %s',
    (state) => {
      expect(movesBy(state, 'forgotten')).toEqual([`view: ${state.split('/')[0]}/none by forgotten`]);
    },
  );

  test.for<StateName>(['failed/failed', 'ready/active', 'ready/none', 'cleaning/releasing', 'starting/provisioning'])(
    'is not forgotten in %s',
    (state) => {
      expect(movesBy(state, 'forgotten', 'window-over').filter((move) => move.startsWith('view'))).toEqual([]);
    },
  );

  test('stays failed until its rescue window ends', () => {
    expect(movesBy('failed/failed', 'window-over')).toEqual(['automatic: failed/over by window-over']);
    expect(movesBy('ready/active', 'window-over')).toEqual([]);
    const failed = { ...slipwayModel.allocationStatuses.failed, deadline: null };
    const allocationStatuses = { ...slipwayModel.allocationStatuses, failed };
    expect(moveTexts('failed/failed', { ...slipwayModel, allocationStatuses }).join()).not.toContain('window-over');
  });
});

test('reports and rules without a deadline count as chance', () => {
  for (const [state, cause] of [
    ['ready/active', 'goodbye'],
    ['offline/active', 'heartbeat-returned'],
    ['provisioning/provisioning', 'registration'],
    ['ready/active', 'drift'],
    ['ready/active', 'degraded'],
    ['starting/provisioning', 'probe-promotes'],
    ['starting/provisioning', 'prerequisite-missing'],
  ] as const) {
    expect(movesBy(state, cause).length, cause).toBeGreaterThan(0);
    for (const move of movesBy(state, cause)) expect(move).toMatch(/^chance: /);
  }
});
