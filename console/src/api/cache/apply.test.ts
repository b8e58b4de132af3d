import { QueryClient } from '@tanstack/react-query';
import { describe, expect, it } from 'vitest';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Node } from '../../../../src/contract/node.ts';
import type { Operation } from '../../../../src/contract/operation.ts';
import { applyChanges } from './apply.ts';
import { FleetStore } from './fleet-store.ts';
import { keys } from './keys.ts';
import { maxLive, type Pages } from './patch.ts';

const pages = <T>(...items: T[]): Pages<T> => ({ pages: [{ items, next_cursor: null }], pageParams: [null] });
const itemsOf = <T>(data: Pages<T> | undefined) => data?.pages.flatMap((page) => page.items) ?? [];
const allocation = (allocation_id: string, fields: Partial<Allocation> = {}) =>
  ({ allocation_id, status: 'active', workflow_id: null, progress: null, ...fields }) as Allocation;
const operation = (workflow_id: string, percent: number) =>
  ({ workflow_id, status: 'running', progress: { workflow_id, percent } }) as Operation;

describe('applyChanges', () => {
  it('updates, adds and removes items according to the filters of each list', () => {
    const cache = new QueryClient();
    const all = keys.list('allocations', {});
    const active = keys.list('allocations', { status: 'active' });
    cache.setQueryData(all, pages(allocation('a'), allocation('b')));
    cache.setQueryData(active, pages(allocation('a'), allocation('b')));

    applyChanges(cache, [
      { topic: 'allocation', value: allocation('b', { status: 'releasing' }) },
      { topic: 'allocation', value: allocation('c') },
    ]);

    const shape = (key: typeof all) =>
      itemsOf(cache.getQueryData<Pages<Allocation>>(key)).map((item) => `${item.allocation_id} ${item.status}`);
    expect(shape(all)).toEqual(['c active', 'a active', 'b releasing']);
    expect(shape(active)).toEqual(['c active', 'a active']);
  });

  it('applies only the last of several changes to a node', () => {
    const cache = new QueryClient();
    cache.setQueryData(keys.fleet(), new FleetStore([]));
    cache.setQueryData(keys.one('nodes', 'n'), { node_id: 'n', status: 'provisioning' });
    const states = ['starting', 'ready'] as const;
    applyChanges(
      cache,
      states.map((status) => ({ topic: 'node' as const, value: { node_id: 'n', status } as Node })),
    );
    expect(cache.getQueryData<FleetStore>(keys.fleet())?.get('n')?.status).toBe('ready');
    expect(cache.getQueryData<Node>(keys.one('nodes', 'n'))?.status).toBe('ready');
  });

  it('caps a list and moves its cursor to the last kept item', () => {
    const cache = new QueryClient();
    const offline = keys.list('nodes', { status: 'offline' });
    cache.setQueryData(offline, pages<Node>());
    for (let n = 0; n < maxLive + 50; n++)
      applyChanges(cache, [{ topic: 'node', value: { node_id: `n${n}`, status: 'offline' } as Node }]);
    const data = cache.getQueryData<Pages<Node>>(offline);
    expect(itemsOf(data)).toHaveLength(maxLive);
    expect(itemsOf(data)[0]?.node_id).toBe(`n${maxLive + 49}`);
    expect(data?.pages[0]?.next_cursor).toBe('n50');
  });

  it('adds nothing to the cache for queries that were never read', () => {
    const cache = new QueryClient();
    applyChanges(cache, [{ topic: 'node', value: { node_id: 'n' } as Node }]);
    expect(
      cache
        .getQueryCache()
        .getAll()
        .filter((query) => query.state.data !== undefined),
    ).toEqual([]);
  });

  it('copies the progress of an operation to its allocation', () => {
    const cache = new QueryClient();
    const key = keys.one('allocations', 'a');
    cache.setQueryData(key, allocation('a', { workflow_id: 'op_1' }));
    applyChanges(cache, [{ topic: 'operation', value: operation('op_1', 40) }]);
    expect(cache.getQueryData<Allocation>(key)?.progress?.percent).toBe(40);
  });

  it('prepends new evidence to the matching timelines and skips duplicates', () => {
    const cache = new QueryClient();
    const fact = (cursor: string, node_id: string, layer = 'node') => ({ cursor, node_id, layer }) as Evidence;
    const allLayers = keys.timeline({ node_id: 'n' });
    const ruleLayer = keys.timeline({ node_id: 'n', layer: 'rule' });
    cache.setQueryData(allLayers, pages(fact('1-1', 'n')));
    cache.setQueryData(ruleLayer, pages<Evidence>());
    const incoming = [fact('2-1', 'n'), fact('1-1', 'n'), fact('3-1', 'other'), fact('4-1', 'n', 'rule')];
    applyChanges(
      cache,
      incoming.map((value) => ({ topic: 'evidence', value })),
    );
    const cursors = (key: typeof allLayers) =>
      itemsOf(cache.getQueryData<Pages<Evidence>>(key)).map(({ cursor }) => cursor);
    expect(cursors(allLayers)).toEqual(['4-1', '2-1', '1-1']);
    expect(cursors(ruleLayer)).toEqual(['4-1']);
  });
});
