/** Reads findings and records decisions about them. The server refuses both to tenants. */
import { infiniteQueryOptions } from '@tanstack/react-query';
import { type Filters, keys } from '../cache/keys.ts';
import { firstPage, nextPage } from '../cache/lists.ts';
import { act, call } from '../client.ts';

const pageSize = 100;

export const findingsQuery = (filter: Filters) =>
  infiniteQueryOptions({
    queryKey: keys.findingList(filter),
    initialPageParam: firstPage,
    getNextPageParam: nextPage,
    queryFn: ({ pageParam, signal }) =>
      call('drift-list', { query: { ...filter, limit: pageSize, cursor: pageParam ?? undefined }, signal }),
  });

export type Decision = 'repair' | 'accept';

const routes = { repair: 'drift-repair', accept: 'drift-accept' } as const;

export const decideFinding = (
  id: string,
  decision: Decision,
  body: { reason: string; dry_run?: boolean },
  idempotency_key: string,
) => act(routes[decision], { params: { id }, body, idempotency_key });
