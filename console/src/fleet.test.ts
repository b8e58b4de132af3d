import { describe, expect, it } from 'vitest';
import type { Node } from '../../src/contract/node.ts';
import type { NodeStatus } from '../../src/lifecycle/states.ts';
import { countByStatus, countWords, groupByPool, matching, withStatus } from './fleet.ts';

const node = (node_id: string, pool: string, status: NodeStatus, labels = {}): Node =>
  ({ node_id, name: `${pool}-${node_id}`, pool, status, labels, zone: null }) as Node;
const fleet = [
  node('n3', 'gpu', 'ready', { team: 'search' }),
  node('n1', 'gpu', 'failed'),
  node('n2', 'edge', 'ready'),
  node('n0', 'gpu', 'retired'),
];
const everything = { q: undefined, pool: undefined, statuses: new Set<NodeStatus>() };
const ids = (nodes: Node[]) => nodes.map(({ node_id }) => node_id);

describe('the fleet', () => {
  it('leaves out the retired until they are asked for', () => {
    expect(ids(matching(fleet, everything))).toEqual(['n3', 'n1', 'n2']);
    const statuses = new Set<NodeStatus>(['retired']);
    expect(ids(withStatus(matching(fleet, { ...everything, statuses }), statuses))).toEqual(['n0']);
  });

  it('is found by all words, in names, ids, pools and labels', () => {
    expect(ids(matching(fleet, { ...everything, q: 'GPU team=sea' }))).toEqual(['n3']);
    expect(ids(matching(fleet, { ...everything, q: 'n1', pool: 'edge' }))).toEqual([]);
  });

  it('is grouped by pool, each cell in the order of its birth', () => {
    const groups = groupByPool(matching(fleet, everything));
    expect(groups.map(({ name, nodes }) => [name, ids(nodes)])).toEqual([
      ['edge', ['n2']],
      ['gpu', ['n1', 'n3']],
    ]);
    expect(countWords(countByStatus(groups[1]?.nodes ?? []))).toBe('1 ready, 1 failed');
  });
});
