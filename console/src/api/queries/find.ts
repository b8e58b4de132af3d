/** What an id or a name stands for, whichever it is. */
import { queryOptions } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { call } from '../client.ts';

/** `as_of` is whatever changes when the answer may. */
export const findQuery = (id: string, as_of = '') =>
  queryOptions({
    queryKey: keys.found(id, as_of),
    queryFn: ({ signal }) => call('thing-find', { query: { id }, signal }),
    enabled: id !== '',
  });
