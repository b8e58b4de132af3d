/** Reads what an id or a name stands for. */
import { queryOptions } from '@tanstack/react-query';
import { keys } from '../cache/keys.ts';
import { call } from '../client.ts';

/** Pass a new `as_of` whenever the answer may have changed. */
export const findQuery = (id: string, as_of = '') =>
  queryOptions({
    queryKey: keys.found(id, as_of),
    queryFn: ({ signal }) => call('thing-find', { query: { id }, signal }),
    enabled: id !== '',
  });
