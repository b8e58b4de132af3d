import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type NodeStatus, nodeStatusNames } from '../../../../src/lifecycle/model/states.ts';
import type { FleetNode } from '../../api/cache/fleet-node.ts';
import { countWords, type FleetFilter } from './filter.ts';
import { FleetView } from './fleet-view.ts';

const node = (node_id: string, pool: string, status: NodeStatus, more: Partial<FleetNode> = {}): FleetNode => ({
  node_id,
  name: `${pool}-${node_id}`,
  pool,
  status,
  labels: {},
  zone: null,
  since_ms: 0,
  deadline_ms: null,
  held: false,
  ...more,
});
const fleet = [
  node('n3', 'gpu', 'ready', { labels: { team: 'search' }, zone: 'eu-1' }),
  node('n1', 'gpu', 'failed', { zone: 'eu-2' }),
  node('n2', 'edge', 'ready'),
  node('n0', 'gpu', 'retired'),
];
const everything: FleetFilter = { q: undefined, pool: undefined, statuses: new Set() };
const contentsOf = (view: FleetView) =>
  view.groups.map(({ name, nodes, counts }) => [name, nodes.map(({ node_id }) => node_id), countWords(counts)]);

describe('the fleet', () => {
  it('is grouped by pool or zone, in order of creation, without retired nodes', () => {
    expect(contentsOf(new FleetView(fleet, everything, 'pool'))).toEqual([
      ['edge', ['n2'], '1 ready'],
      ['gpu', ['n1', 'n3'], '1 ready, 1 failed'],
    ]);
    expect(contentsOf(new FleetView(fleet, everything, 'zone')).map(([name]) => name)).toEqual([
      'eu-1',
      'eu-2',
      'no zone',
    ]);
  });

  it('matches all words of a search, and counts statuses before the status filter', () => {
    expect(new FleetView(fleet, { ...everything, q: 'GPU team=sea' }, 'pool').shown).toBe(1);
    expect(new FleetView(fleet, { ...everything, q: 'n1', pool: 'edge' }, 'pool').matched).toBe(0);
    const failed = new FleetView(fleet, { ...everything, statuses: new Set(['failed']) }, 'pool');
    expect([failed.shown, failed.matched, countWords(failed.counts)]).toEqual([1, 3, '2 ready, 1 failed']);
    expect(new FleetView(fleet, { ...everything, statuses: new Set(['retired']) }, 'pool').shown).toBe(1);
  });

  it('redraws only changed cells, or all cells if some moved', () => {
    const view = new FleetView(fleet, everything, 'pool');
    const gpu = view.groups.find(({ name }) => name === 'gpu');
    expect(gpu?.takeDirty()).toBeNull();
    view.apply([node('n3', 'gpu', 'offline')]);
    expect(gpu?.takeDirty()).toEqual(new Set([1]));
    view.apply([node('n1', 'gpu', 'retired')]);
    expect(gpu?.takeDirty()).toBeNull();
    expect(contentsOf(view)).toEqual([
      ['edge', ['n2'], '1 ready'],
      ['gpu', ['n3'], '1 offline'],
    ]);
  });

  it('redraws a cell once when its deadline passes', () => {
    const at = Date.parse('2026-01-01T00:00:10Z');
    const expiring = node('n4', 'gpu', 'provisioning', { deadline_ms: at });
    const [group] = new FleetView([expiring], everything, 'pool').groups;
    group?.takeDirty();
    group?.passDeadlines(at - 2000, at - 1000);
    expect(group?.takeDirty()).toEqual(new Set());
    group?.passDeadlines(at - 1000, at + 1);
    expect(group?.takeDirty()).toEqual(new Set([0]));
    expect(group?.isOverdue(0, at + 1)).toBe(true);
    expect(group?.isOverdue(0, at - 1)).toBe(false);
  });

  it('equals a view built from scratch after any changes', () => {
    const status = fc.constantFrom(...nodeStatusNames);
    const some = fc.record({ id: fc.integer({ min: 0, max: 12 }), pool: fc.constantFrom('a', 'b'), status });
    const asNode = ({ id, pool, status }: { id: number; pool: string; status: NodeStatus }) =>
      node(`n${String(id).padStart(2, '0')}`, pool, status);
    const chosen = fc.subarray([...nodeStatusNames]);
    fc.assert(
      fc.property(fc.array(some), fc.array(some), chosen, (first, later, statuses) => {
        const filter = { ...everything, statuses: new Set(statuses) };
        const known = new Map(first.map(asNode).map((each) => [each.node_id, each]));
        const view = new FleetView(known.values(), filter, 'pool');
        for (const each of later.map(asNode)) {
          view.apply([each]);
          known.set(each.node_id, each);
        }
        const rebuilt = new FleetView(known.values(), filter, 'pool');
        expect(contentsOf(view)).toEqual(contentsOf(rebuilt));
        expect([view.counts, view.matched, view.shown]).toEqual([rebuilt.counts, rebuilt.matched, rebuilt.shown]);
      }),
    );
  });
});
