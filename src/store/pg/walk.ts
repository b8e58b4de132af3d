/**
 * A page of a list, at a price that does not grow with how much there is: a walk along one index in the order of the ids, from where
 * the last page ended. Conditions that no index answers are asked of so many rows in a page and no more; a page may then be
 * short, or empty, and its cursor says where the next one goes on.
 */
import type { Queryable } from './database.ts';

/** What a page holds unless somebody asks for another size. */
export const defaultPageSize = 100;
/** So many rows are looked at for a page whose conditions no index answers. */
const mostLookedAt = 10_000;

export interface Walk {
  /** A table, or how its rows are called where they are selected. */
  table: string;
  key: string;
  /** Rows that an index has in this order, no more than `most`; its own parameters come first in `values`. */
  rows(most: number): string;
  values: unknown[];
}

/** Adds a value to the parameters of a statement and returns its placeholder. */
export type Bind = (value: unknown) => string;

/** Binds values in the order of the calls, after `behind` others. */
export function parameters(behind = 0) {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${behind + values.push(value)}`;
  return { values, bind };
}

export type Direction = 'asc' | 'desc';

export const beyond = (direction: Direction) => (direction === 'desc' ? '<' : '>');

export interface Wanted {
  /** Conditions on the rows of the walk; where there are none, all of them are wanted. */
  where: readonly string[];
  values: readonly unknown[];
  direction: Direction;
  limit: number;
  look_at?: number;
}

/** `select` reads the rows of a walk, under the name of its table, with whatever belongs to them. */
export async function readWalk<R extends object>(
  db: Queryable,
  { key, rows, table, values }: Walk,
  { where, values: more, direction, limit, look_at = mostLookedAt }: Wanted,
  select: (from: string) => string,
): Promise<{ rows: R[]; next_cursor: string | null }> {
  const most = where.length === 0 ? limit + 1 : look_at;
  const ordered = `order by ${table}.${key} ${direction}`;
  const found = await db.query<R>(
    `${select(`(${rows(most)}) ${table}`)} where ${where.length === 0 ? 'true' : where.join(' and ')} ${ordered} limit ${limit + 1}`,
    [...values, ...more],
    // Nearly everybody asks for the same page, and planning it takes as long as reading it. Each other size would be one more plan to keep.
    { often: where.length === 0 && limit === defaultPageSize },
  );
  const keyOf = (row: object | undefined): string | null => (row ? String(row[key as keyof typeof row]) : null);
  if (found.length > limit) return { rows: found.slice(0, limit), next_cursor: keyOf(found[limit - 1]) };
  if (where.length === 0) return { rows: found, next_cursor: null };
  const [last] = await db.query(
    `select ${key} from (${rows(most)}) ${table} ${ordered} limit 1 offset ${look_at - 1}`,
    values,
  );
  return { rows: found, next_cursor: keyOf(last) };
}

/**
 * By an index over (pool, status, id): the next of every pool and status that is asked for, of which the first are taken. Pools are
 * few, and each look is one step into the index.
 */
export const alongPoolsAndStatuses = (of: {
  table: string;
  key: string;
  /** Of an array: every pool where none is named. */
  pools: string;
  statuses: string;
  after: string;
  direction: Direction;
}) => {
  const ordered = `order by ${of.key} ${of.direction}`;
  return (most: number) => `
    select whole.* from (
      select found.${of.key} from unnest(${of.pools}) as place(pool) cross join unnest(${of.statuses}) as stands(status)
      cross join lateral (select ${of.key} from ${of.table} at_place where at_place.pool = place.pool and at_place.status = stands.status
        ${of.after} ${ordered} limit ${most}) found
      ${ordered} limit ${most}) first
    join ${of.table} whole using (${of.key})`;
};
