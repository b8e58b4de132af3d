import { describe, expect, test } from 'vitest';
import { checkModel, type Violation } from './model-checker.ts';
import { type Model, slipwayModel } from './model-moves.ts';
import { type AllocationStatus, allocationStatusNames, type NodeStatus, nodeStatusNames } from './states.ts';
import { type Cause, causes, type Edge, type PairedChange, type Trigger } from './transitions.ts';

const linesOf = (findings: Violation[]) => findings.map(({ where, what }) => `${where}: ${what}`);

/**
 * Removes the causes that `drop` selects from the edges out of `from`. Edges without a cause
 * disappear.
 */
const without = <S extends string>(
  edges: readonly Edge<S>[],
  from: S,
  drop: (by: Cause, edge: Edge<S>) => boolean,
): Edge<S>[] =>
  edges
    .map((edge) => (edge.from === from ? { ...edge, by: edge.by.filter((by) => !drop(by, edge)) } : edge))
    .filter((edge) => edge.by.length > 0);

const by = (trigger: Trigger) => (cause: Cause) => causes[cause].trigger === trigger;
const nodesOf = (kind: string) => nodeStatusNames.filter((name) => slipwayModel.nodeStatuses[name].class === kind);
const allocationsOf = (kind: string) =>
  allocationStatusNames.filter((name) => slipwayModel.allocationStatuses[name].class === kind);

test('no reachable state of a node and its allocation is stuck', () => {
  const proof = checkModel();
  expect(linesOf(proof.findings)).toEqual([]);
  expect(proof.states.length).toBeGreaterThan(70);
  expect(proof.moves).toBeGreaterThan(500);
});

describe('the checker reports a violation for', () => {
  test.for<[NodeStatus, Cause]>([
    ['provisioning', 'provision-deadline'],
    ['starting', 'stuck-starting'],
    ['starting', 'start-deadline'],
    ['offline', 'offline-deadline'],
    ['failed', 'rescue-over'],
    ['draining', 'drain-deadline'],
    ['cleaning', 'clean-deadline'],
  ])('node %s without %s', ([status, rule]) => {
    const nodeEdges = without<NodeStatus>(slipwayModel.nodeEdges, status, (cause) => cause === rule);
    expect(linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings)).toContain(
      `node ${status}: is moving and ${rule} does not end it`,
    );
  });

  test.for(nodesOf('moving'))('node %s without a deadline', (status) => {
    const declared = { ...slipwayModel.nodeStatuses[status], deadline: null };
    const model: Model = { ...slipwayModel, nodeStatuses: { ...slipwayModel.nodeStatuses, [status]: declared } };
    expect(linesOf(checkModel(model).findings)).toEqual([`node ${status}: is moving and has no deadline`]);
  });

  test.for(nodesOf('serving'))('node %s without supervision', (status) => {
    const model: Model = {
      ...slipwayModel,
      nodeEdges: without<NodeStatus>(slipwayModel.nodeEdges, status, (cause) => cause === 'liveness'),
    };
    expect(linesOf(checkModel(model).findings)).toContain(`node ${status}: is serving and nothing supervises it`);
  });

  test.for(nodesOf('parked'))('node %s without an action out of it', (status) => {
    const model: Model = {
      ...slipwayModel,
      nodeEdges: without<NodeStatus>(slipwayModel.nodeEdges, status, by('operator')),
    };
    const findings = linesOf(checkModel(model).findings);
    expect(findings).toContain(`node ${status}: is parked and no action leads out`);
    expect(findings).toContain(
      `node ${status} with allocation none: cannot end by automatic moves and at most one operator action`,
    );
  });

  test.for<[AllocationStatus, Cause]>([
    ['requested', 'queue-deadline'],
    ['provisioning', 'node-failed'],
    ['releasing', 'release-deadline'],
  ])('allocation %s without %s', ([status, rule]) => {
    const allocationEdges = without<AllocationStatus>(slipwayModel.allocationEdges, status, (cause) => cause === rule);
    expect(linesOf(checkModel({ ...slipwayModel, allocationEdges }).findings)).toContain(
      `allocation ${status}: is moving and ${rule} does not end it`,
    );
  });

  test.for(allocationsOf('moving'))('allocation %s without a deadline', (status) => {
    const declared = { ...slipwayModel.allocationStatuses[status], deadline: null };
    const allocationStatuses = { ...slipwayModel.allocationStatuses, [status]: declared };
    expect(linesOf(checkModel({ ...slipwayModel, allocationStatuses }).findings)).toContain(
      `allocation ${status}: is moving and has no deadline`,
    );
  });

  test('a failed allocation whose window never ends', () => {
    const declared = { ...slipwayModel.allocationStatuses.failed, deadline: null };
    const allocationStatuses = { ...slipwayModel.allocationStatuses, failed: declared };
    expect(linesOf(checkModel({ ...slipwayModel, allocationStatuses }).findings)).toContain(
      'node retired with allocation failed: allocation failed is never left by itself',
    );
  });

  test('an active allocation that stays active when its node fails', () => {
    const allocationEdges = without<AllocationStatus>(slipwayModel.allocationEdges, 'active', by('rule'));
    const findings = linesOf(checkModel({ ...slipwayModel, allocationEdges }).findings);
    expect(findings).toContain('allocation active: is serving and nothing supervises it');
    expect(findings).toContain('the pair of node failed and allocation failed: has no matching edge of the allocation');
  });

  test('a failed release that cannot be retried', () => {
    const allocationEdges = without<AllocationStatus>(slipwayModel.allocationEdges, 'release_failed', by('operator'));
    const findings = linesOf(checkModel({ ...slipwayModel, allocationEdges }).findings);
    expect(findings).toContain('allocation release_failed: is parked and no action leads out');
  });

  test('a machine that can be cleaned but never retired', () => {
    const nodeEdges = slipwayModel.nodeEdges.filter((edge) => edge.to !== 'retired');
    const findings = linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings);
    expect(findings).toContain('node retired: is never reached');
    expect(findings).toContain(
      'node ready with allocation active: cannot end by automatic moves and at most one operator action',
    );
  });

  test('a release that cannot start', () => {
    const nodeEdges = slipwayModel.nodeEdges.map((edge) => ({
      ...edge,
      by: edge.by.filter((each) => each !== 'release'),
    }));
    const findings = linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings);
    expect(findings).toContain('node quarantined: no release can begin in this status');
  });

  test('a machine that is quarantined during its release and cannot retire once proven gone', () => {
    const nodeEdges = slipwayModel.nodeEdges.filter((edge) => !(edge.from === 'quarantined' && edge.to === 'retired'));
    expect(linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings)).toContain(
      'node quarantined with allocation releasing: cannot be retired when its machine is proven gone',
    );
  });

  test.for(slipwayModel.pairedChanges.filter((pair) => pair.allocation.by !== 'rescue'))(
    'an allocation ($allocation.from) that does not follow its node to $node.to',
    (dropped) => {
      const pairedChanges = slipwayModel.pairedChanges.filter((pair) => pair !== dropped);
      const { node, allocation } = dropped;
      expect(linesOf(checkModel({ ...slipwayModel, pairedChanges }).findings)).toContain(
        `node ${node.to} with allocation ${allocation.from}: the allocation does not follow its node`,
      );
    },
  );

  test('an active allocation whose reactivated machine fails', () => {
    const pairedChanges = slipwayModel.pairedChanges.map((pair) =>
      pair.allocation.by === 'node-lost' && pair.node.to === 'failed'
        ? { ...pair, node: { ...pair.node, from: ['offline' as const] } }
        : pair,
    );
    expect(linesOf(checkModel({ ...slipwayModel, pairedChanges }).findings)).toContain(
      'node failed with allocation active: the allocation does not follow its node',
    );
  });

  test('an allocation that is still provisioning when its node has been ready and degrades', () => {
    const pairedChanges = slipwayModel.pairedChanges.filter((pair) => pair.allocation.by !== 'node-ready');
    expect(linesOf(checkModel({ ...slipwayModel, pairedChanges }).findings)).toContain(
      'node degraded with allocation provisioning: the allocation does not follow its node',
    );
  });

  test.for(['provisioning', 'active'] as const)('an allocation that is %s without a machine', (to) => {
    const allocationEdges: Edge<AllocationStatus>[] = [
      ...slipwayModel.allocationEdges,
      { from: 'requested', to, by: ['release-retry'] },
    ];
    expect(linesOf(checkModel({ ...slipwayModel, allocationEdges }).findings)).toContain(
      `node none with allocation ${to}: the allocation does not follow its node`,
    );
  });

  test('a status whose phase no rule ends', () => {
    const declared = { ...slipwayModel.allocationStatuses.requested, deadline: 'drain' as const };
    const allocationStatuses = { ...slipwayModel.allocationStatuses, requested: declared };
    expect(linesOf(checkModel({ ...slipwayModel, allocationStatuses }).findings)).toEqual([
      'allocation requested: is moving and no rule ends its drain phase',
    ]);
  });

  test('a node that only a person or its machine can move', () => {
    const nodeEdges = without<NodeStatus>(slipwayModel.nodeEdges, 'offline', by('rule'));
    expect(linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings)).toContain(
      'node offline with allocation none: node offline is never left by itself',
    );
  });

  test('a ready node that no rule supervises', () => {
    const nodeEdges = without<NodeStatus>(slipwayModel.nodeEdges, 'ready', by('rule'));
    const findings = linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings);
    expect(findings).toContain('node ready with allocation none: node ready is not supervised');
    expect(findings).toContain('node ready with allocation active: allocation active is not supervised');
    expect(findings).not.toContain('node quarantined with allocation active: allocation active is not supervised');
  });

  test('a parked status with an automatic exit but no action', () => {
    const allocationEdges = without<AllocationStatus>(slipwayModel.allocationEdges, 'release_failed', by('operator'));
    const nodeEdges = without<NodeStatus>(slipwayModel.nodeEdges, 'quarantined', by('operator'));
    expect(linesOf(checkModel({ ...slipwayModel, allocationEdges }).findings)).toContain(
      'node cleaning with allocation release_failed: no action leads out of allocation release_failed',
    );
    expect(linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings)).toContain(
      'node quarantined with allocation none: no action leads out of node quarantined',
    );
  });

  test('a failed release that is never retried automatically', () => {
    const allocationEdges = without<AllocationStatus>(slipwayModel.allocationEdges, 'release_failed', by('rule'));
    expect(linesOf(checkModel({ ...slipwayModel, allocationEdges }).findings)).toContain(
      'node cleaning with allocation release_failed: the release never ends by itself',
    );
  });

  test('a status that cannot be reached', () => {
    const allocationEdges = slipwayModel.allocationEdges.filter((edge) => edge.to !== 'release_failed');
    expect(linesOf(checkModel({ ...slipwayModel, allocationEdges }).findings)).toContain(
      'allocation release_failed: is never reached',
    );
  });

  test('a paired change that is missing in one of the tables', () => {
    const pairing = (node: PairedChange['node'], allocation: PairedChange['allocation']) =>
      linesOf(
        checkModel({ ...slipwayModel, pairedChanges: [...slipwayModel.pairedChanges, { node, allocation }] }).findings,
      );
    const lost = { from: 'active', to: 'failed', by: 'node-lost' } as const;
    expect(pairing({ from: ['failed', 'ready'], to: 'starting' }, lost)).toContain(
      'the pair of node starting and allocation failed: has no matching edge of the node',
    );
    expect(pairing({ from: ['failed'], to: 'starting' }, { ...lost, to: 'released' })).toContain(
      'the pair of node starting and allocation released: has no matching edge of the allocation',
    );
    expect(pairing({ from: ['failed'], to: 'starting' }, { ...lost, by: 'rescue' })).toContain(
      'the pair of node starting and allocation failed: has no matching edge of the allocation',
    );
  });

  test('a machine that can become ready without proof as well as with it', () => {
    const nodeEdges = slipwayModel.nodeEdges.map((edge) =>
      edge.from === 'cleaning' && edge.to === 'ready' ? { ...edge, by: [...edge.by, 'reactivate' as const] } : edge,
    );
    expect(linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings)).toContain(
      'node cleaning: becomes ready without proof',
    );
  });

  test('an exit from a terminal status', () => {
    const nodeEdges: Edge<NodeStatus>[] = [
      ...slipwayModel.nodeEdges,
      { from: 'retired', to: 'ready', by: ['reactivate'] },
    ];
    expect(linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings)).toContain(
      'node retired: is terminal and has an exit',
    );
  });

  test('a machine that becomes starting without proof', () => {
    const nodeEdges: Edge<NodeStatus>[] = [
      ...slipwayModel.nodeEdges,
      { from: 'cleaning', to: 'starting', by: ['reactivate'] },
    ];
    expect(linesOf(checkModel({ ...slipwayModel, nodeEdges }).findings)).toEqual([
      'node cleaning: becomes starting without proof',
    ]);
  });
});
