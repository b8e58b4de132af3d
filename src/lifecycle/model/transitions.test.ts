/**
 * Compares the transition tables with the specification's tables, copied below, in both directions.
 */
import { describe, expect, test } from 'vitest';
import { type AllocationStatus, allocationStatusNames, type NodeStatus, nodeStatusNames } from './states.ts';
import {
  allocationEdges,
  type Cause,
  causes,
  describeCause,
  type Edge,
  findEdge,
  isVerdict,
  nodeEdges,
  pairedChanges,
  pairedWith,
} from './transitions.ts';

test('describes a known cause, and no other name', () => {
  expect(describeCause('release-deadline')).toBe('all tries failed, or it took too long');
  expect(describeCause('toString')).toBeUndefined();
});

type Row<S extends string> = [from: (S | 'new')[], to: S[], by: Cause[]];

const live: NodeStatus[] = nodeStatusNames.filter((name) => name !== 'retired');

/** The specification's node table, in its order and groups. */
const specifiedNodes: Row<NodeStatus>[] = [
  [['new'], ['provisioning'], ['node-provision', 'node-create', 'join']],
  [['provisioning'], ['starting'], ['registration', 'ensured']],
  [['provisioning'], ['failed'], ['provision-deadline', 'provision-error']],
  [['starting'], ['ready'], ['claim-ready', 'stuck-starting', 'probe-promotes', 'upstream-ready']],
  [['starting'], ['failed'], ['start-deadline']],
  [['failed'], ['starting'], ['late-registration']],
  [['failed'], ['provisioning'], ['retry']],
  [['failed'], ['cleaning'], ['rescue-over']],
  [['ready'], ['degraded'], ['degraded']],
  [['degraded'], ['ready'], ['degraded']],
  [['ready', 'degraded'], ['offline'], ['liveness', 'goodbye']],
  [['offline'], ['ready', 'degraded'], ['heartbeat-returned']],
  [['offline'], ['failed'], ['offline-deadline']],
  [['ready', 'degraded', 'offline'], ['draining'], ['drain']],
  [['draining'], ['ready'], ['undrain']],
  [['draining'], ['quarantined', 'cleaning'], ['drained', 'drain-deadline']],
  [live, ['cleaning'], ['release', 'reimage', 'retire']],
  [['cleaning'], ['ready', 'provisioning', 'retired'], ['proof']],
  [['cleaning'], ['quarantined'], ['clean-deadline', 'force-release']],
  [live, ['quarantined'], ['quarantine', 'drift']],
  [['quarantined'], ['starting'], ['reactivate']],
  [['quarantined'], ['provisioning'], ['re-enroll']],
  [['offline', 'failed'], ['provisioning'], ['re-enroll']],
];

const specifiedAllocations: Row<AllocationStatus>[] = [
  [['requested'], ['provisioning'], ['node-assigned']],
  [['requested'], ['failed'], ['queue-deadline']],
  [['provisioning'], ['active'], ['node-ready']],
  [['provisioning'], ['failed'], ['node-failed']],
  [['failed'], ['provisioning'], ['rescue', 'retry']],
  [['active'], ['failed'], ['node-lost']],
  [['requested', 'provisioning', 'active', 'failed'], ['releasing'], ['release']],
  [['releasing'], ['released'], ['proof', 'force-release']],
  [['releasing'], ['release_failed'], ['release-deadline']],
  [['release_failed'], ['releasing'], ['release-retry', 'release']],
];

/** Edges beyond the specification, each with its reason. */
const additions: Record<string, string> = {
  'new → requested by allocation-create': 'the specification does not mention how an allocation is created',
  'requested → failed by provision-error': 'the operation can fail before a machine is assigned',
  'provisioning → failed by node-lost': 'the node can be retired or quarantined before it is ready',
  'starting → failed by prerequisite-missing': 'the prerequisites of a joined machine are checked only after it joined',
  'cleaning → quarantined by clean-error': 'the operation can fail for a known reason long before its deadline',
  'quarantined → retired by proof': 'an operator can quarantine the node while its release tears it down',
  'ready → degraded by liveness': 'a silent machine may still answer a probe',
  'degraded → ready by heartbeat-returned': 'the node was degraded only by silence, and its heartbeats resumed',
  'release_failed → released by force-release': 'forcing is needed most after a release failed',
  ...Object.fromEntries(
    ['starting', 'ready', 'degraded', 'offline', 'quarantined'].map((from) => [
      `${from} → cleaning by drift`,
      'a pool with the policy repair tears a missing machine down with proof',
    ]),
  ),
};

const flat = <S extends string>(rows: readonly Row<S>[]): string[] =>
  rows
    .flatMap(([froms, tos, bys]) => froms.flatMap((from) => tos.flatMap((to) => bys.map((by) => ({ from, to, by })))))
    // A row from all live statuses excludes the status that it leads to.
    .filter(({ from, to }) => (from as string) !== to)
    .map(({ from, to, by }) => `${from} → ${to} by ${by}`);

const describeEdges = <S extends string>(edges: readonly Edge<S>[]): string[] =>
  edges.flatMap(({ from, to, by }) => by.map((each) => `${from} → ${to} by ${each}`));

describe.for([
  { name: 'node', specified: flat(specifiedNodes), table: describeEdges(nodeEdges) },
  { name: 'allocation', specified: flat(specifiedAllocations), table: describeEdges(allocationEdges) },
])('the $name table', ({ specified, table }) => {
  test('has every edge of the specification', () => {
    expect(specified.filter((edge) => !table.includes(edge))).toEqual([]);
  });

  test('has no other edge except the listed additions', () => {
    expect(table.filter((edge) => !specified.includes(edge) && !(edge in additions))).toEqual([]);
  });

  test('lists each edge once', () => {
    expect(table.filter((edge, at) => table.indexOf(edge) !== at)).toEqual([]);
  });
});

test('every listed addition is in a table', () => {
  const all = [...describeEdges(nodeEdges), ...describeEdges(allocationEdges)];
  expect(Object.keys(additions).filter((edge) => !all.includes(edge))).toEqual([]);
});

test('each pair of statuses has at most one edge, and every edge has a cause', () => {
  for (const edges of [nodeEdges, allocationEdges]) {
    const pairs = edges.map(({ from, to }) => `${from} → ${to}`);
    expect(new Set(pairs).size).toBe(pairs.length);
    expect(edges.filter((edge) => edge.by.length === 0)).toEqual([]);
  }
});

test('every cause is used', () => {
  const used = new Set([...nodeEdges, ...allocationEdges].flatMap((edge): readonly Cause[] => edge.by));
  expect((Object.keys(causes) as Cause[]).filter((cause) => !used.has(cause))).toEqual([]);
});

test('verdicts come from rules, failed operations and failed nodes', () => {
  /**
   * The specification's rules that change a status, and `prerequisite-missing`. `no-regress` is not
   * a cause, because it keeps the status.
   */
  const rules: Cause[] = [
    'provision-deadline',
    'late-registration',
    'rescue-over',
    'stuck-starting',
    'start-deadline',
    'prerequisite-missing',
    'probe-promotes',
    'liveness',
    'goodbye',
    'offline-deadline',
    'drain-deadline',
    'queue-deadline',
    'clean-deadline',
    'degraded',
    'node-lost',
    'release-deadline',
    'release-retry',
    'drift',
  ];
  const verdicts = (Object.keys(causes) as Cause[]).filter(isVerdict);
  expect(verdicts.sort()).toEqual([...rules, 'provision-error', 'clean-error', 'node-failed'].sort());
});

test('findEdge finds exactly the edges of the table', () => {
  const froms = ['new', ...nodeStatusNames] as const;
  for (const from of froms)
    for (const to of nodeStatusNames)
      for (const by of Object.keys(causes) as Cause[]) {
        const listed = nodeEdges.some((edge) => edge.from === from && edge.to === to && edge.by.includes(by));
        expect(findEdge(nodeEdges, from, to, by) !== undefined, `${from} → ${to} by ${by}`).toBe(listed);
      }
});

test('a change of a node changes its allocation at most once', () => {
  for (const from of nodeStatusNames)
    for (const to of nodeStatusNames)
      for (const status of allocationStatusNames)
        expect(pairedWith(from, to).filter((pair) => pair.from === status).length).toBeLessThan(2);
});

test('a node that fails also fails its allocation, a rescue restores it, and a reactivation changes none', () => {
  const froms = nodeEdges.flatMap((edge) => (edge.to === 'failed' && edge.from !== 'new' ? [edge.from] : []));
  expect(froms.length).toBeGreaterThan(2);
  for (const from of froms)
    expect(pairedWith(from, 'failed').map((pair) => pair.from)).toEqual(['provisioning', 'active']);
  expect(pairedWith('failed', 'starting').map((pair) => pair.by)).toEqual(['rescue']);
  expect(pairedWith('quarantined', 'starting')).toEqual([]);
  expect(pairedChanges.every((pair) => pair.node.from.length > 0)).toBe(true);
});
