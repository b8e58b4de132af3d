/** Reads of evidence, joined by any of the five ids, newest first. */
import { infiniteQueryOptions } from '@tanstack/react-query';
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
