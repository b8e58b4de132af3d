/** Reads of nodes, their boot stages and their logs. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { Node } from '../../../src/contract/node.ts';
import { type NodeStatus, nodeStatuses, nodeStatusNames } from '../../../src/lifecycle/states.ts';
import { nodeId } from '../live/apply.ts';
import { journal } from '../live/journal.ts';
import { patchMap } from '../live/patch.ts';
import { call } from './client.ts';
import { keys } from './keys.ts';
import { firstPage, nextPage, readOne, readPage } from './lists.ts';

const pageSize = 500;
const heartbeatMs = 10_000;

async function readAll(status: NodeStatus, signal: AbortSignal): Promise<Node[]> {
  const nodes: Node[] = [];
  let cursor: string | undefined;
  do {
    const page = await call('node-list', { query: { status, limit: pageSize, cursor }, signal });
    nodes.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor);
  return nodes;
}

const livingStatuses = nodeStatusNames.filter((status) => nodeStatuses[status].class !== 'terminal');

/**
 * Every node that is still something. Asked for status by status, because the retired outnumber the living in time, and
 * nobody should wait for them.
 */
export const fleetQuery = queryOptions({
  queryKey: keys.fleet(),
  queryFn: async ({ signal }): Promise<Map<string, Node>> => {
    const mark = journal.mark();
    const read = (await Promise.all(livingStatuses.map((status) => readAll(status, signal)))).flat();
    return patchMap(new Map(read.map((node) => [node.node_id, node])), journal.since(mark, 'node'), nodeId);
  },
});

export const nodeQuery = (id: string) =>
  queryOptions({
    queryKey: keys.one('nodes', id),
    // Heartbeats are not evidence and do not come over the stream, and an old "last seen" would look like silence.
    refetchInterval: heartbeatMs,
    queryFn: ({ signal }) => readOne('node', id, nodeId, () => call('node-get', { params: { id }, signal })),
  });

export const bootQuery = (id: string, instance: string | null) =>
  queryOptions({
    queryKey: keys.boot(id, instance),
    queryFn: ({ signal }) => call('node-boot', { params: { id }, query: { instance: instance ?? undefined }, signal }),
  });

const retiredFilter = { status: 'retired' };

/** The retired, newest first and page by page; only read when somebody asks for them. */
export const retiredQuery = infiniteQueryOptions({
  queryKey: keys.list('nodes', retiredFilter),
  initialPageParam: firstPage,
  getNextPageParam: nextPage,
  queryFn: ({ pageParam, signal }) =>
    readPage('node', retiredFilter, pageParam, nodeId, () =>
      call('node-list', { query: { status: 'retired', limit: pageSize, cursor: pageParam ?? undefined }, signal }),
    ),
});
