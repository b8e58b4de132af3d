/**
 * Reads the newest restore of the database and the machines that differ from its rows, and lets the
 * servers act again. The server refuses all of them to tenants.
 */
import { infiniteQueryOptions, queryOptions, useQuery } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { firstPage, nextPage } from '../cache/lists.ts';
import { act, type BodyOf, call } from '../client.ts';
import { seesWholeFleet, useSession } from '../session.ts';

/** The stream reports when a restoration begins or ends. */
export const restorationQuery = queryOptions({
  queryKey: keys.restoration(),
  queryFn: ({ signal }) => call('restoration-get', { signal }),
});

/** Found differences leave no evidence. While the servers compare, the page reads them again. */
export const comparisonMs = 10_000;

const pageSize = 100;

export const differencesQuery = infiniteQueryOptions({
  queryKey: keys.restorationDifferences(),
  initialPageParam: firstPage,
  getNextPageParam: nextPage,
  queryFn: ({ pageParam, signal }) =>
    call('restoration-differences', { query: { limit: pageSize, cursor: pageParam ?? undefined }, signal }),
});

export const endRestoration = (body: BodyOf<'restoration-end'>, idempotency_key: string) =>
  act('restoration-end', { body, idempotency_key });

/** Undefined for tenants and while loading. */
export const useRestoration = () => useQuery({ ...restorationQuery, enabled: seesWholeFleet(useSession()) }).data;
