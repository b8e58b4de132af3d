/** Reads pools and the counts of the whole fleet. The server refuses both to tenants. */
import { queryOptions } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { call } from '../client.ts';

export const poolsQuery = queryOptions({
  queryKey: keys.pools(),
  queryFn: async ({ signal }) => (await call('pool-list', { signal })).items,
});

export const overviewQuery = queryOptions({
  queryKey: keys.overview(),
  queryFn: ({ signal }) => call('overview-get', { signal }),
});
