/** Reads of nodes and their boot stages, why each stands where it stands, and what may be done with one. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { Node } from '../../../src/contract/node.ts';
import type { NodeActionName } from '../../../src/lifecycle/actions.ts';
import { type NodeStatus, nodeStatuses, nodeStatusNames } from '../../../src/lifecycle/states.ts';
import { nodeId } from '../live/apply.ts';
import { FleetStore } from '../live/fleet-store.ts';
import { journal } from '../live/journal.ts';
import { act, type BodyOf, call } from './client.ts';
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
  queryFn: async ({ signal }): Promise<FleetStore> => {
    const mark = journal.mark();
    const read = (await Promise.all(livingStatuses.map((status) => readAll(status, signal)))).flat();
    const store = new FleetStore(read);
    store.apply(journal.since(mark, 'node'));
    return store;
  },
});

export const nodeQuery = (id: string) =>
  queryOptions({
    queryKey: keys.one('nodes', id),
    // Heartbeats are not evidence and do not come over the stream, and an old "last seen" would look like silence.
    refetchInterval: heartbeatMs,
    queryFn: ({ signal }) => readOne('node', id, nodeId, () => call('node-get', { params: { id }, signal })),
  });

/** Why it stands where it stands; what comes next moves with its heartbeat, which does not come over the stream. */
export const explanationQuery = (id: string) =>
  queryOptions({
    queryKey: keys.explanation(id),
    refetchInterval: heartbeatMs,
    queryFn: ({ signal }) => call('node-explain', { params: { id }, signal }),
  });

export const actOnNode = (id: string, action: NodeActionName, body: BodyOf<'node-act'>, idempotency_key: string) =>
  act('node-act', { params: { id, action }, body, idempotency_key });

export const bootQuery = (id: string, instance: string | null) =>
  queryOptions({
    queryKey: keys.boot(id, instance),
    queryFn: ({ signal }) => call('node-boot', { params: { id }, query: { instance: instance ?? undefined }, signal }),
  });

/** The nodes in one status, newest first and page by page. */
export const nodesIn = (status: NodeStatus) => {
  const by = { status };
  return infiniteQueryOptions({
    queryKey: keys.list('nodes', by),
    initialPageParam: firstPage,
    getNextPageParam: nextPage,
    queryFn: ({ pageParam, signal }) =>
      readPage('node', by, pageParam, nodeId, () =>
        call('node-list', { query: { status, limit: pageSize, cursor: pageParam ?? undefined }, signal }),
      ),
  });
};

/** Only read when somebody asks for them: in time they outnumber the living. */
export const retiredQuery = nodesIn('retired');
