/** Reads operations and acts on them. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { operationId } from '../cache/apply.ts';
import { type Filters, keys } from '../cache/keys.ts';
import { firstPage, nextPage, readOne, readPage } from '../cache/lists.ts';
import { noteArrival } from '../cache/received.ts';
import { act, call } from '../client.ts';

const pageSize = 100;

export const operationsQuery = (filter: Filters) =>
  infiniteQueryOptions({
    queryKey: keys.list('operations', filter),
    initialPageParam: firstPage,
    getNextPageParam: nextPage,
    queryFn: ({ pageParam, signal }) =>
      readPage('operation', filter, pageParam, operationId, async () => {
        const page = await call('operation-list', {
          query: { ...filter, limit: pageSize, cursor: pageParam ?? undefined },
          signal,
        });
        for (const operation of page.items) noteArrival(operation.progress);
        return page;
      }),
  });

export const operationQuery = (id: string) =>
  queryOptions({
    queryKey: keys.one('operations', id),
    queryFn: ({ signal }) =>
      readOne('operation', id, operationId, async () => {
        const operation = await call('operation-get', { params: { id }, signal });
        noteArrival(operation.progress);
        return operation;
      }),
  });

export const cancelOperation = (id: string, reason: string | undefined, idempotency_key: string) =>
  act('operation-cancel', { params: { id }, body: { reason }, idempotency_key });

export const retryOperation = (id: string, reason: string | undefined, idempotency_key: string) =>
  act('operation-retry', { params: { id }, body: { reason }, idempotency_key });
