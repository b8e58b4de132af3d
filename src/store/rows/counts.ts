/**
 * How many nodes, allocations and operations there are. Triggers of the schema add every change to `counts` in the transaction that makes
 * it (migration 0019), so what is read here is what the same snapshot would count, at a price that does not grow with the fleet.
 * Here they are read, folded, and held against the rows themselves.
 */
import type { FleetCounts } from '../../contract/fleet/fleet.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Queryable, Transaction } from '../pg/database.ts';

export type Counted = 'nodes' | 'allocations' | 'operations';

/** What is told apart; a null is none, or does not apply. */
interface CountKey {
  of: Counted;
  pool: string | null;
  zone: string | null;
  status: string;
  held_rule: string | null;
  held_kind: string | null;
  /** Of an allocation: whether it has a node. */
  on_node: boolean | null;
}

const key = 'of, pool, zone, status, held_rule, held_kind, on_node';

/** Of each kind, by one statement: whoever asks wants all of them, and mostly waits for its turn and not for the sum. */
export async function countByStatus(db: Queryable): Promise<Record<Counted, Record<string, number>>> {
  const rows = await db.query<{ of: Counted; status: string; count: number }>(
    'select of, status, sum(change)::int as count from counts group by of, status having sum(change) <> 0 order by of, status',
  );
  const counted: Record<Counted, Record<string, number>> = { nodes: {}, allocations: {}, operations: {} };
  for (const { of, status, count } of rows) counted[of][status] = count;
  return counted;
}

/** Nodes whose verdict is held back, by the rule and why. */
export const countHeld = (db: Queryable): Promise<{ rule: string; kind: string; count: number }[]> =>
  db.query(
    `select held_rule as rule, held_kind as kind, sum(change)::int as count from counts where of = 'nodes' and held_rule is not null
     group by 1, 2 having sum(change) <> 0 order by 1, 2`,
  );

/** The living, by where they are and how they stand. */
export const countFleet = (db: Queryable): Promise<FleetCounts['items']> =>
  db.query(
    `select pool, zone, status, sum(change)::int as nodes, coalesce(sum(change) filter (where held_rule is not null), 0)::int as held
     from counts where of = 'nodes' and status <> 'retired' group by 1, 2, 3 having sum(change) <> 0 order by 1, 2, 3`,
  );

/** So many rows beyond one for each kind cost a reader less than folding them costs. */
const worthFolding = 1_000;

/** Puts the rows of each kind together, when there are many. What others add meanwhile stays as it is. Says how many are left out. */
export async function foldCounts(db: Queryable): Promise<number> {
  const [size] = await db.query<{ rows: number; kinds: number }>(
    `select count(*)::int as rows, count(distinct (${key}))::int as kinds from counts`,
  );
  if (!size || size.rows < size.kinds + worthFolding) return 0;
  const [folded] = await db.query<{ before: number; after: number }>(
    `with taken as (delete from counts returning *),
       folded as (insert into counts select ${key}, sum(change) from taken group by ${key} having sum(change) <> 0 returning 1)
     select (select count(*) from taken)::int as before, (select count(*) from folded)::int as after`,
  );
  return folded ? folded.before - folded.after : 0;
}

export interface WrongCount extends CountKey {
  counted: number;
  there_are: number;
}

/** Rows and counts in one statement, and so in one snapshot: what is under way is in both or in neither. */
const wrongCounts = `
  with rows as (
    select 'nodes' as of, pool, zone, status, held ->> 'rule' as held_rule, held ->> 'kind' as held_kind, null::boolean as on_node, count(*) as there_are
      from nodes group by 2, 3, 4, 5, 6
    union all select 'allocations', pool, null, status, null, null, node_id is not null, count(*) from allocations group by 2, 4, 7
    union all select 'operations', null, null, status, null, null, null, count(*) from operations group by status),
  kept as (select ${key}, sum(change) as counted from counts group by ${key}),
  wrong as (
    select ${key}, coalesce(sum(counted), 0) as counted, coalesce(sum(there_are), 0) as there_are from (
      select ${key}, counted, null as there_are from kept union all select ${key}, null, there_are from rows) both_sides
    group by ${key} having coalesce(sum(counted), 0) <> coalesce(sum(there_are), 0))`;

const shown = 'counted::int as counted, there_are::int as there_are';

export const verifyCounts = (db: Queryable): Promise<WrongCount[]> =>
  db.query<WrongCount>(`${wrongCounts} select ${key}, ${shown} from wrong order by ${key}`);

/** Whoever repairs at the same time would add the same difference. */
const repairLock = 7_213_002;

/** Adds what is missing, and says so. Two replicas never add the same difference. */
export async function repairCounts(tx: Transaction, now: Date): Promise<WrongCount[]> {
  await tx.query('select pg_advisory_xact_lock($1)', [repairLock]);
  const wrong = await tx.query<WrongCount>(
    `${wrongCounts}, repaired as (insert into counts (${key}, change) select ${key}, there_are - counted from wrong)
     select ${key}, ${shown} from wrong order by ${key}`,
  );
  if (wrong.length === 0) return wrong;
  const off = wrong.reduce((sum, { counted, there_are }) => sum + Math.abs(counted - there_are), 0);
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'store',
      kind: 'count.repaired',
      summary: `counts were off by ${off} in ${wrong.length} places, and were put right from the rows`,
      data: { off, places: wrong.length, first: wrong.slice(0, 20) },
    },
  ]);
  return wrong;
}
