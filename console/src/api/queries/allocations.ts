/** Reads allocations and acts on them. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { AllocationCreate } from '../../../../src/contract/allocation.ts';
import type { AllocationActionName } from '../../../../src/lifecycle/actions/allocation-actions.ts';
import { allocationId } from '../cache/apply.ts';
import { type Filters, keys } from '../cache/keys.ts';
import { firstPage, nextPage, readOne, readPage } from '../cache/lists.ts';
import { noteArrival } from '../cache/received.ts';
import { act, type BodyOf, call } from '../client.ts';

const pageSize = 100;

export const allocationsQuery = (filter: Filters) =>
  infiniteQueryOptions({
    queryKey: keys.list('allocations', filter),
    initialPageParam: firstPage,
    getNextPageParam: nextPage,
    queryFn: ({ pageParam, signal }) =>
      readPage('allocation', filter, pageParam, allocationId, async () => {
        const page = await call('allocation-list', {
          query: { ...filter, limit: pageSize, cursor: pageParam ?? undefined },
          signal,
        });
        for (const allocation of page.items) noteArrival(allocation.progress);
        return page;
      }),
  });

export const allocationQuery = (id: string) =>
  queryOptions({
    queryKey: keys.one('allocations', id),
    queryFn: ({ signal }) =>
      readOne('allocation', id, allocationId, async () => {
        const allocation = await call('allocation-get', { params: { id }, signal });
        noteArrival(allocation.progress);
        return allocation;
      }),
  });

/**
 * The dialog makes one key per body, so a second click on an unchanged form creates no second
 * allocation.
 */
export const allocate = (body: AllocationCreate, idempotency_key: string) =>
  act('allocation-create', { body, idempotency_key });

export const release = (id: string, reason: string | undefined, idempotency_key: string) =>
  act('allocation-release', { params: { id }, body: { reason }, idempotency_key });

/** All actions on an allocation: which are available now, and why the others are not. */
export const allocationActionsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.allocationActions(id),
    queryFn: async ({ signal }) => (await call('allocation-actions', { params: { id }, signal })).items,
  });

export const actOnAllocation = (
  id: string,
  action: AllocationActionName,
  body: BodyOf<'allocation-act'>,
  idempotency_key: string,
) => act('allocation-act', { params: { id, action }, body, idempotency_key });

export const retryAllocation = (id: string, reason: string | undefined, idempotency_key: string) =>
  act('allocation-retry', { params: { id }, body: { reason }, idempotency_key });
