/**
 * Reads, folds and verifies the counts of nodes, allocations and operations. Triggers add a row to
 * `counts` in the transaction of every change (migration 0019). The sum of these rows therefore
 * equals `count(*)` in the same snapshot, at a cost that does not grow with the fleet.
 */
import type { FleetCounts } from '../../contract/fleet/fleet.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Queryable, Transaction } from '../pg/database.ts';

export type Counted = 'nodes' | 'allocations' | 'operations';

/** A field is null if the counted row has no such value, or if its table has no such column. */
interface CountKey {
  of: Counted;
  pool: string | null;
  zone: string | null;
  status: string;
  held_rule: string | null;
  held_kind: string | null;
  /** For allocations: whether the allocation has a node. */
  on_node: boolean | null;
}

const keyColumns = 'of, pool, zone, status, held_rule, held_kind, on_node';

/**
 * Counts all three tables in one statement, because callers need all of them and a round trip costs
 * more than the sums.
 */
export async function countByStatus(db: Queryable): Promise<Record<Counted, Record<string, number>>> {
  const rows = await db.query<{ of: Counted; status: string; count: number }>(
    `select of, status, sum(change)::int as count
     from counts
     group by of, status
     having sum(change) <> 0
     order by of, status`,
  );
  const counted: Record<Counted, Record<string, number>> = { nodes: {}, allocations: {}, operations: {} };
  for (const { of, status, count } of rows) counted[of][status] = count;
  return counted;
}

/** Counts the nodes with a held verdict, by rule and kind of hold. */
export const countHeld = (db: Queryable): Promise<{ rule: string; kind: string; count: number }[]> =>
  db.query(
    `select held_rule as rule, held_kind as kind, sum(change)::int as count
     from counts
     where of = 'nodes'
       and held_rule is not null
     group by 1, 2
     having sum(change) <> 0
     order by 1, 2`,
  );

/** Counts the nodes that are not retired, by pool, zone and status. */
export const countFleet = (db: Queryable): Promise<FleetCounts['items']> =>
  db.query(
    `select pool, zone, status, sum(change)::int as nodes,
       coalesce(sum(change) filter (where held_rule is not null), 0)::int as held
     from counts
     where of = 'nodes'
       and status <> 'retired'
     group by 1, 2, 3
     having sum(change) <> 0
     order by 1, 2, 3`,
  );

/** Folding fewer rows costs more than reading them. */
const minFoldedRows = 1_000;

/** Folds the rows of each key into one, if the table is long. Returns how many rows it removed. */
export async function foldCounts(db: Queryable): Promise<number> {
  const [size] = await db.query<{ rows: number; keys: number }>(
    `select count(*)::int as rows, count(distinct (${keyColumns}))::int as keys from counts`,
  );
  if (!size || size.rows < size.keys + minFoldedRows) return 0;
  const [folded] = await db.query<{ before: number; after: number }>(
    `with deleted as (
       delete from counts
       returning *
     ),
     folded as (
       insert into counts
       select ${keyColumns}, sum(change)
       from deleted
       group by ${keyColumns}
       having sum(change) <> 0
       returning 1
     )
     select (select count(*) from deleted)::int as before, (select count(*) from folded)::int as after`,
  );
  return folded ? folded.before - folded.after : 0;
}

export interface WrongCount extends CountKey {
  counted: number;
  there_are: number;
}

/**
 * Compares the counts with the rows. One statement reads one snapshot, in which a concurrent change
 * is visible in both or in neither.
 */
const wrongCounts = `
  with rows as (
    select 'nodes' as of, pool, zone, status,
      held ->> 'rule' as held_rule, held ->> 'kind' as held_kind,
      null::boolean as on_node, count(*) as there_are
    from nodes
    group by 2, 3, 4, 5, 6
    union all
    select 'allocations', pool, null, status, null, null, node_id is not null, count(*)
    from allocations
    group by 2, 4, 7
    union all
    select 'operations', null, null, status, null, null, null, count(*)
    from operations
    group by status
  ),
  sums as (
    select ${keyColumns}, sum(change) as counted
    from counts
    group by ${keyColumns}
  ),
  wrong as (
    select ${keyColumns}, coalesce(sum(counted), 0) as counted, coalesce(sum(there_are), 0) as there_are
    from (
      select ${keyColumns}, counted, null as there_are from sums
      union all
      select ${keyColumns}, null, there_are from rows
    ) both_sides
    group by ${keyColumns}
    having coalesce(sum(counted), 0) <> coalesce(sum(there_are), 0)
  )`;

const wrongColumns = 'counted::int as counted, there_are::int as there_are';

export const verifyCounts = (db: Queryable): Promise<WrongCount[]> =>
  db.query<WrongCount>(
    `${wrongCounts}
     select ${keyColumns}, ${wrongColumns}
     from wrong
     order by ${keyColumns}`,
  );

const repairLock = 7_213_005;

/**
 * Corrects wrong counts and records a fact. The lock keeps two replicas from adding the same
 * difference twice.
 */
export async function repairCounts(tx: Transaction, now: Date): Promise<WrongCount[]> {
  await tx.query('select pg_advisory_xact_lock($1)', [repairLock]);
  const wrong = await tx.query<WrongCount>(
    `${wrongCounts},
     repaired as (
       insert into counts (${keyColumns}, change)
       select ${keyColumns}, there_are - counted from wrong
     )
     select ${keyColumns}, ${wrongColumns}
     from wrong
     order by ${keyColumns}`,
  );
  if (wrong.length === 0) return wrong;
  const off = wrong.reduce((sum, { counted, there_are }) => sum + Math.abs(counted - there_are), 0);
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'store',
      kind: 'count.repaired',
      summary: `corrected ${wrong.length} counts that differed from the rows by ${off} in total`,
      data: { off, places: wrong.length, first: wrong.slice(0, 20) },
    },
  ]);
  return wrong;
}
