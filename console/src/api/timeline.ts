/** Reads of evidence, joined by any of the five ids, newest first. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { JoinedTimelineQuery } from '../../../src/contract/evidence.ts';
import { call } from './client.ts';
import { type Filters, keys } from './keys.ts';
import { firstPage, nextPage, readPage } from './lists.ts';

const pageSize = 100;

export const timelineQuery = (by: Filters) =>
  infiniteQueryOptions({
    queryKey: keys.timeline(by),
    initialPageParam: firstPage,
    getNextPageParam: nextPage,
    queryFn: ({ pageParam, signal }) =>
      readPage(
        'evidence',
        by,
        pageParam,
        (evidence) => evidence.cursor,
        () =>
          call('timeline-get', {
            query: { ...(by as JoinedTimelineQuery), order: 'newest', limit: pageSize, cursor: pageParam ?? undefined },
            signal,
          }),
      ),
  });

/**
 * The fact that brought an allocation into its status; it says why even where no rule had to decide. A new status is a new
 * question, so what was answered never has to be read again.
 */
export const statusFactQuery = (allocation_id: string, status: string, since: string) =>
  queryOptions({
    queryKey: [...keys.statusFacts(), allocation_id, status, since],
    queryFn: async ({ signal }) => {
      const query = { allocation_id, kind: `allocation.${status}`, order: 'newest', limit: 1 } as const;
      const page = await call('timeline-get', { query, signal });
      return page.items[0] ?? null;
    },
  });
