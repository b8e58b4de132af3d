/** Looks up the things that an id or a name refers to. */
import { queryOptions } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { call } from '../client.ts';

/**
 * `version` is not sent. It only changes the cache key: pass another value to repeat the lookup.
 */
export const findQuery = (idOrName: string, version = '') =>
  queryOptions({
    queryKey: keys.find(idOrName, version),
    queryFn: ({ signal }) => call('thing-find', { query: { id: idOrName }, signal }),
    enabled: idOrName !== '',
  });
