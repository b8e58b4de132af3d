/** Paging of lists that are ordered by id. */
import { Compile } from 'typebox/compile';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { Id } from '../../contract/primitives.ts';
import { defaultPageSize } from '../../store/pg/walk.ts';

const id = Compile(Id);

/** Splits a query into cursor, limit and filters. */
export function readPageQuery<Q extends { cursor?: string; limit?: number }>(query: Q | undefined) {
  const { cursor, limit, ...filter } = query ?? ({} as Q);
  if (cursor !== undefined && !id.Check(cursor)) throw new ApiProblem('invalid_cursor');
  return { ...filter, after: cursor, limit: limit ?? defaultPageSize };
}
