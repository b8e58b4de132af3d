/**
 * Keyset pagination: a page walks one index in id order from where the last page ended, so its cost
 * does not grow with the table. Conditions without an index filter a bounded number of rows per
 * page; such a page may be short or empty and still have a cursor.
 */
import type { Queryable } from './database.ts';

export const defaultPageSize = 100;
/** A page with conditions without an index scans this many rows. */
const defaultMaxScanned = 10_000;

export interface Walk {
  /** The name under which a statement selects the rows. */
  table: string;
  key: string;
  /** Selects at most `maxRows` rows in the order of an index. */
  rows(maxRows: number): string;
  /** The parameters of `rows`, which come first. */
  values: unknown[];
}

/** Adds a value to the parameters of a statement and returns its placeholder. */
export type Bind = (value: unknown) => string;

/** Binds values in the order of the calls, after `offset` others. */
export function parameters(offset = 0) {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${offset + values.push(value)}`;
  return { values, bind };
}

export type Direction = 'asc' | 'desc';

export const beyond = (direction: Direction) => (direction === 'desc' ? '<' : '>');

export interface Wanted {
  /** Conditions on the rows that the walk does not answer by its index. */
  where: readonly string[];
  values: readonly unknown[];
  direction: Direction;
  limit: number;
  max_scanned?: number;
}

/**
 * `select` makes a statement that reads the rows of the walk, with its joins, up to the `where`.
 */
export async function readWalk<R extends object>(
  db: Queryable,
  { key, rows, table, values }: Walk,
  { where, values: more, direction, limit, max_scanned = defaultMaxScanned }: Wanted,
  select: (from: string) => string,
): Promise<{ rows: R[]; next_cursor: string | null }> {
  const maxRows = where.length === 0 ? limit + 1 : max_scanned;
  const ordered = `order by ${table}.${key} ${direction}`;
  const found = await db.query<R>(
    `${select(`(${rows(maxRows)}) ${table}`)}
     where ${where.length === 0 ? 'true' : where.join(' and ')}
     ${ordered}
     limit ${limit + 1}`,
    [...values, ...more],
    // Nearly all callers use the default size, and planning takes as long as reading. Each other
    // size would be one more plan to keep.
    { often: where.length === 0 && limit === defaultPageSize },
  );
  const keyOf = (row: object | undefined): string | null => (row ? String(row[key as keyof typeof row]) : null);
  if (found.length > limit) return { rows: found.slice(0, limit), next_cursor: keyOf(found[limit - 1]) };
  if (where.length === 0) return { rows: found, next_cursor: null };
  const [last] = await db.query(
    `select ${key} from (${rows(maxRows)}) ${table}
     ${ordered}
     limit 1
     offset ${max_scanned - 1}`,
    values,
  );
  return { rows: found, next_cursor: keyOf(last) };
}

/**
 * Walks an index over (pool, status, id): reads the next ids of each requested pool and status, and
 * keeps the first of them. Pools are few, so these are few index lookups.
 */
export const alongPoolsAndStatuses = (of: {
  table: string;
  key: string;
  /** An SQL array of pool names. */
  pools: string;
  statuses: string;
  after: string;
  direction: Direction;
}) => {
  const ordered = `order by ${of.key} ${of.direction}`;
  return (maxRows: number) => `
    select whole.*
    from (
      select found.${of.key}
      from unnest(${of.pools}) as wanted_pool(pool)
      cross join unnest(${of.statuses}) as wanted_status(status)
      cross join lateral (
        select ${of.key} from ${of.table} candidate
        where candidate.pool = wanted_pool.pool
          and candidate.status = wanted_status.status
          ${of.after}
        ${ordered}
        limit ${maxRows}
      ) found
      ${ordered}
      limit ${maxRows}
    ) first
    join ${of.table} whole using (${of.key})`;
};
