/** Reads evidence by node, instance, allocation, operation or correlation id. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { Evidence, JoinedTimelineQuery } from '../../../../src/contract/evidence/evidence.ts';
import type { Page } from '../../../../src/contract/primitives.ts';
import { type Filters, keys } from '../cache/keys.ts';
import { firstPage, nextPage, readPage } from '../cache/lists.ts';
import { call } from '../client.ts';

const pageSize = 100;

export const timelineQuery = (filter: Filters) =>
  infiniteQueryOptions({
    queryKey: keys.timeline(filter),
    initialPageParam: firstPage,
    getNextPageParam: nextPage,
    queryFn: ({ pageParam, signal }) =>
      readPage(
        'evidence',
        filter,
        pageParam,
        (evidence) => evidence.cursor,
        () =>
          call('timeline-get', {
            query: {
              ...(filter as JoinedTimelineQuery),
              order: 'newest',
              limit: pageSize,
              cursor: pageParam ?? undefined,
            },
            signal,
          }),
      ),
  });

/** Returns the first match. A page may be empty before the end, so follow the cursor. */
export async function readFirstFact(query: JoinedTimelineQuery, signal: AbortSignal): Promise<Evidence | null> {
  for (let cursor: string | undefined; ; ) {
    const page: Page<Evidence> = await call('timeline-get', { query: { ...query, limit: 1, cursor }, signal });
    if (page.items[0] || page.next_cursor === null) return page.items[0] ?? null;
    cursor = page.next_cursor;
  }
}

/**
 * The fact that set the current status of an allocation. It holds the reason even if no rule
 * decided. The key includes the status and its start, so a cached answer never goes stale.
 */
export const statusFactQuery = (allocation_id: string, status: string, since: string) =>
  queryOptions({
    queryKey: keys.statusFact(allocation_id, status, since),
    queryFn: ({ signal }) => readFirstFact({ allocation_id, kind: `allocation.${status}`, order: 'newest' }, signal),
  });

/**
 * The fact that set the current status of a node. It names the actor, if a person or a program
 * acted.
 */
export const nodeStatusFactQuery = (node_id: string, status: string, since: string) =>
  queryOptions({
    queryKey: keys.statusFact(node_id, status, since),
    queryFn: ({ signal }) => readFirstFact({ node_id, kind: `node.${status}`, order: 'newest' }, signal),
  });

/** The first failure of an allocation's release; later tries do not change it. */
export const firstFailureQuery = (allocation_id: string) =>
  queryOptions({
    queryKey: keys.statusFact(allocation_id, 'first-failure'),
    queryFn: ({ signal }) =>
      readFirstFact({ allocation_id, kind: 'allocation.release_failed', order: 'oldest' }, signal),
  });
