/** How lists that are ordered by id are paged. */
import { Compile } from 'typebox/compile';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { Id } from '../../contract/primitives.ts';
import { defaultPageSize } from '../../store/pg/walk.ts';

const id = Compile(Id);

/** Takes cursor and limit out of a query; what is left are its filters. */
export function pageOf<Q extends { cursor?: string; limit?: number }>(query: Q | undefined) {
  const { cursor, limit, ...filter } = query ?? ({} as Q);
  if (cursor !== undefined && !id.Check(cursor)) throw new ApiProblem('invalid_cursor');
  return { ...filter, after: cursor, limit: limit ?? defaultPageSize };
}
