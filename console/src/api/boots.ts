/** Reads of a pool's recorded boots; only for those who see the whole fleet. */
import { queryOptions } from '@tanstack/react-query';
import { call } from './client.ts';
import { keys } from './keys.ts';

export const poolBootsQuery = (pool: string) =>
  queryOptions({
    queryKey: keys.poolBoot(pool),
    queryFn: ({ signal }) => call('pool-boots', { params: { pool }, signal }),
  });
