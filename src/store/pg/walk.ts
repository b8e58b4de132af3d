/**
 * Reads pages with keyset pagination. A page walks one index in id order from the end of the last
 * page, so its cost does not grow with the table. Conditions without an index filter a bounded
 * number of rows per page. Such a page may be short or empty and still have a cursor.
 */
import type { Queryable } from './database.ts';

export const defaultPageSize = 100;
/** A page whose conditions have no index scans at most this many rows. */
const defaultMaxScanned = 10_000;

export interface Walk {
  /** The alias of the walked rows in the statement. */
  table: string;
  key: string;
  /** Returns a statement that selects at most `maxRows` rows in the order of an index. */
  rows(maxRows: number): string;
  /** The parameters of `rows`. They come first in the statement. */
  values: unknown[];
}

/** Adds a value to the parameters of a statement and returns its placeholder. */
export type Bind = (value: unknown) => string;

/** Binds values in the order of the calls. Their placeholders start after `offset`. */
export function parameters(offset = 0) {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${offset + values.push(value)}`;
  return { values, bind };
}

export type Direction = 'asc' | 'desc';

/** Returns the operator that compares a key with the cursor to select later rows. */
export const toComparison = (direction: Direction) => (direction === 'desc' ? '<' : '>');

export interface PageRequest {
  /** Conditions that the index does not cover. */
  where: readonly string[];
  values: readonly unknown[];
  direction: Direction;
  limit: number;
  max_scanned?: number;
}

/** Reads a page. `select` returns the statement up to its `where` for a `from` clause. */
export async function readWalk<R extends object>(
  db: Queryable,
  { key, rows, table, values }: Walk,
  { where, values: whereValues, direction, limit, max_scanned = defaultMaxScanned }: PageRequest,
  select: (from: string) => string,
): Promise<{ rows: R[]; next_cursor: string | null }> {
  const maxRows = where.length === 0 ? limit + 1 : max_scanned;
  const orderBy = `order by ${table}.${key} ${direction}`;
  const matches = await db.query<R>(
    `${select(`(${rows(maxRows)}) ${table}`)}
     where ${where.length === 0 ? 'true' : where.join(' and ')}
     ${orderBy}
     limit ${limit + 1}`,
    [...values, ...whereValues],
    // Only the default size is prepared. Nearly all callers use it, and planning takes as long as
    // reading; each other size would be another plan to keep.
    { prepared: where.length === 0 && limit === defaultPageSize },
  );
  const readKey = (row: object | undefined): string | null => (row ? String(row[key as keyof typeof row]) : null);
  if (matches.length > limit) return { rows: matches.slice(0, limit), next_cursor: readKey(matches[limit - 1]) };
  if (where.length === 0) return { rows: matches, next_cursor: null };
  const [last] = await db.query(
    `select ${key} from (${rows(maxRows)}) ${table}
     ${orderBy}
     limit 1
     offset ${max_scanned - 1}`,
    values,
  );
  return { rows: matches, next_cursor: readKey(last) };
}

/**
 * Walks an index over (pool, status, id). It reads the next ids of each requested pool and status
 * and keeps the first of all. There are few pools, so this needs few index lookups.
 */
export const walkPoolsAndStatuses = ({
  table,
  key,
  pools,
  statuses,
  after,
  direction,
}: {
  table: string;
  key: string;
  /** SQL arrays of pool names and of statuses. */
  pools: string;
  statuses: string;
  /** A condition that begins with `and`, or an empty text. */
  after: string;
  direction: Direction;
}) => {
  const orderBy = `order by ${key} ${direction}`;
  return (maxRows: number) => `
    select whole.*
    from (
      select found.${key}
      from unnest(${pools}) as wanted_pool(pool)
      cross join unnest(${statuses}) as wanted_status(status)
      cross join lateral (
        select ${key}
        from ${table} candidate
        where candidate.pool = wanted_pool.pool
          and candidate.status = wanted_status.status
          ${after}
        ${orderBy}
        limit ${maxRows}
      ) found
      ${orderBy}
      limit ${maxRows}
    ) first
    join ${table} whole using (${key})`;
};
