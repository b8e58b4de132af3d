/** Reads nodes, their boot stages and explanations, and acts on them. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import type { Node } from '../../../../src/contract/node.ts';
import type { NodeActionName } from '../../../../src/lifecycle/actions/actions.ts';
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import { nodeId } from '../cache/apply.ts';
import { type FleetNode, fleetNodesOf } from '../cache/fleet-node.ts';
import { FleetStore } from '../cache/fleet-store.ts';
import { journal } from '../cache/journal.ts';
import { filters, keys } from '../cache/keys.ts';
import { firstPage, nextPage, readOne, readPage } from '../cache/lists.ts';
import { act, type BodyOf, call } from '../client.ts';
import { maxCells } from './fleet-size.ts';

const pageSize = 500;
/** The most nodes that one reply of `fleet-get` holds. */
const maxFleetNodes = 20_000;
/** Ids per request; more would make the URL too long. */
const maxIdsPerRequest = 100;
/** The stream carries no heartbeats, so queries that show the last heartbeat are repeated. */
const refetchMs = 10_000;
const maxSearchResults = 100;

/**
 * Reads all nodes of the fleet or of one pool except retired ones, in as few replies as possible.
 * Stops at `maxCells`.
 */
export const fleetQuery = (pool?: string) =>
  queryOptions({
    queryKey: keys.fleet(pool),
    queryFn: async ({ signal }): Promise<FleetStore> => {
      const mark = journal.mark();
      const nodes: FleetNode[] = [];
      let cursor: string | undefined;
      do {
        const page = await call('fleet-get', { query: { limit: maxFleetNodes, cursor, pool }, signal });
        for (const node of fleetNodesOf(page)) nodes.push(node);
        cursor = page.next_cursor ?? undefined;
      } while (cursor && nodes.length < maxCells);
      const store = new FleetStore(nodes, pool);
      store.apply(journal.since(mark, 'node'));
      return store;
    },
  });

const recountMs = 5_000;

/** Counts nodes by pool and status. This is cheap even in a fleet of a million machines. */
export const fleetCountsQuery = queryOptions({
  queryKey: keys.fleetCounts(),
  refetchInterval: recountMs,
  queryFn: async ({ signal }) => (await call('fleet-count', { signal })).items,
});

/** Searches on the server, for a fleet that is too large to hold in the browser. */
export const fleetSearchQuery = (q: string | undefined, status: NodeStatus | undefined) =>
  queryOptions({
    queryKey: keys.fleetSearch(filters({ q, status })),
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => call('node-list', { query: { q, status, limit: maxSearchResults }, signal }),
  });

/** Reads whole nodes for a table, which shows fields that the fleet store does not hold. */
export const nodeRowsQuery = (ids: readonly string[]) =>
  queryOptions({
    queryKey: keys.nodeRows(ids),
    refetchInterval: refetchMs,
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }): Promise<ReadonlyMap<string, Node>> => {
      const chunks = Array.from({ length: Math.ceil(ids.length / maxIdsPerRequest) }, (_, i) =>
        ids.slice(i * maxIdsPerRequest, (i + 1) * maxIdsPerRequest),
      );
      const pages = await Promise.all(
        chunks.map((chunk) => call('node-list', { query: { ids: chunk.join(), limit: maxIdsPerRequest }, signal })),
      );
      return new Map(pages.flatMap(({ items }) => items.map((node) => [node.node_id, node])));
    },
  });

const instanceOrAllocationId = /^(inst|alloc)_\w+$/;

/**
 * Returns the id of the node that an instance or allocation id belongs to. The fleet store holds
 * neither of these ids.
 */
export const nodeForIdQuery = (q: string | undefined) =>
  queryOptions({
    queryKey: keys.nodeForId(q ?? ''),
    enabled: instanceOrAllocationId.test(q ?? ''),
    retry: false,
    queryFn: async ({ signal }): Promise<string | null> => {
      const id = q ?? '';
      if (id.startsWith('alloc_')) return (await call('allocation-get', { params: { id }, signal })).node_id;
      return (await call('node-list', { query: { q: id, limit: 1 }, signal })).items[0]?.node_id ?? null;
    },
  });

export const nodeQuery = (id: string) =>
  queryOptions({
    queryKey: keys.one('nodes', id),
    // Without this, "last seen" would grow old and look like silence.
    refetchInterval: refetchMs,
    queryFn: ({ signal }) => readOne('node', id, nodeId, () => call('node-get', { params: { id }, signal })),
  });

/** Repeated, because the next steps in an explanation depend on the last heartbeat. */
export const explanationQuery = (id: string) =>
  queryOptions({
    queryKey: keys.explanation(id),
    refetchInterval: refetchMs,
    queryFn: ({ signal }) => call('node-explain', { params: { id }, signal }),
  });

export const actOnNode = (id: string, action: NodeActionName, body: BodyOf<'node-act'>, idempotency_key: string) =>
  act('node-act', { params: { id, action }, body, idempotency_key });

export const bootQuery = (id: string, instance: string | null) =>
  queryOptions({
    queryKey: keys.bootStagesOf(id, instance),
    queryFn: ({ signal }) => call('node-boot', { params: { id }, query: { instance: instance ?? undefined }, signal }),
  });

/** The nodes in one status, newest first, page by page. */
export const nodesWithStatusQuery = (status: NodeStatus) => {
  const filter = { status };
  return infiniteQueryOptions({
    queryKey: keys.list('nodes', filter),
    initialPageParam: firstPage,
    getNextPageParam: nextPage,
    queryFn: ({ pageParam, signal }) =>
      readPage('node', filter, pageParam, nodeId, () =>
        call('node-list', { query: { status, limit: pageSize, cursor: pageParam ?? undefined }, signal }),
      ),
  });
};

/** Separate from the fleet and read only on request: over time, most nodes are retired. */
export const retiredQuery = nodesWithStatusQuery('retired');
