/**
 * Compares rows with their evidence. The database compares, so rows that agree are never sent. Row
 * and evidence are written in one transaction and read in one statement, so a concurrent change
 * appears in both or in neither. Reads only.
 */
import { moment } from '../../base/clock.ts';
import type { AllocationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Queryable } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { Disagreement, Side } from '../rows/findings.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { allocations, nodes, type Projected, rebuiltRows } from './projection.ts';

export type ComparedTable = Projected['table'];

/**
 * Columns that rules and operators decide by. Reports of machines change too often to matter here.
 */
const decisive: Record<ComparedTable, readonly string[]> = {
  nodes: [
    'status',
    'status_since',
    'node_instance_id',
    'pool_generation',
    'registered_at',
    'deadline_at',
    'budget_seconds',
    'drain_then',
  ] satisfies (keyof NodeRow)[],
  allocations: [
    'status',
    'status_since',
    'node_id',
    'tenant',
    'deadline_at',
    'budget_seconds',
    'active_at',
    'released_at',
  ] satisfies (keyof AllocationRow)[],
};

const projections: Record<ComparedTable, Projected> = { nodes, allocations };

export interface Compared {
  ours: Side;
  theirs: Side;
}

/** Compares the columns that decide something, or every column. */
export type Thoroughness = 'decisive' | 'every';

const differ = (table: ComparedTable, thoroughness: Thoroughness): string => {
  if (thoroughness === 'every') return 'to_jsonb(stored) <> to_jsonb(rebuilt)';
  const of = (side: string) => decisive[table].map((column) => `${side}.${column}`).join(', ');
  return `(${of('stored')}) is distinct from (${of('rebuilt')})`;
};

/**
 * Filters by a list of keys: its length makes the planner look up facts by key instead of scanning.
 */
function compareSql(table: ComparedTable, thoroughness: Thoroughness): string {
  const of = projections[table];
  const { key } = of;
  return `
    select ${key} as id, to_jsonb(stored) as ours, to_jsonb(rebuilt) as theirs
    from ${table} stored
    left join (${rebuiltRows(of, `fact.${key} = any($1)`)}) rebuilt using (${key})
    where stored.${key} = any($1)
      and (rebuilt.${key} is null or ${differ(table, thoroughness)})
    order by 1`;
}

interface DifferentRow {
  id: string;
  ours: Side & {
    pool: string;
    node_id: NodeId | null;
    node_instance_id?: NodeInstanceId;
    allocation_id?: AllocationId;
  };
  /** Null if no evidence is left. */
  theirs: Side | null;
}

/** JSON from the database writes times in its own format; findings use ISO 8601. */
const formatted = (column: string, value: unknown): unknown =>
  typeof value === 'string' && /_(at|since|from)$/.test(column) ? moment(Date.parse(value)).toISOString() : value;

/** The differing columns of both sides. */
function differenceOf(
  table: ComparedTable,
  { ours, theirs }: DifferentRow,
  thoroughness: Thoroughness,
): Compared | undefined {
  if (!theirs) return undefined;
  const columns = thoroughness === 'every' ? Object.keys(ours) : decisive[table];
  const apart = columns.filter((column) => JSON.stringify(ours[column]) !== JSON.stringify(theirs[column]));
  const side = (of: Side) => Object.fromEntries(apart.map((column) => [column, formatted(column, of[column])]));
  return { ours: side(ours), theirs: side(theirs) };
}

type DifferingRow = Disagreement & { pool: string };

export interface ComparedSlice {
  compared: number;
  differing: DifferingRow[];
  /** Rows without any evidence left, which cannot be compared. */
  without_evidence: string[];
  /** The rows of this slice, without those to recheck. */
  turn: string[];
  /** Where the next slice begins; empty after the last one. */
  cursor: string;
}

/** Compares the next rows after `cursor`, and the rows to recheck. */
export async function compareSlice(
  db: Queryable,
  table: ComparedTable,
  slice: { cursor: string; limit: number; recheck?: readonly string[]; thoroughness?: Thoroughness },
): Promise<ComparedSlice> {
  const { cursor, limit, recheck = [], thoroughness = 'decisive' } = slice;
  const { key } = projections[table];
  const turn = await db.query<{ id: string }>(
    `select ${key} as id from ${table}
     where ${key} > $1
     order by ${key}
     limit $2`,
    [cursor, limit],
  );
  const ids = [...new Set([...turn.map(({ id }) => id), ...recheck])];
  const found = await db.query<DifferentRow>(compareSql(table, thoroughness), [ids]);
  const differing = found.flatMap((apart): DifferingRow[] => {
    const difference = differenceOf(table, apart, thoroughness);
    const { pool, node_id, node_instance_id = null, allocation_id = null } = apart.ours;
    const ids = { pool, node_id, node_instance_id, allocation_id };
    return difference ? [{ what: 'row_differs', subject: apart.id, ...ids, ...difference }] : [];
  });
  return {
    compared: ids.length,
    differing,
    turn: turn.map(({ id }) => id),
    without_evidence: found.filter(({ theirs }) => theirs === null).map(({ id }) => id),
    cursor: turn.length === limit ? (turn.at(-1)?.id ?? '') : '',
  };
}

/** Compares one row. The caller holds its row lock, so it cannot change meanwhile. */
const compareOne = async (db: Queryable, table: ComparedTable, id: string): Promise<Compared | undefined> =>
  (await compareSlice(db, table, { cursor: '', limit: 0, recheck: [id] })).differing[0];

export const compareNode = (db: Queryable, { node_id }: NodeRow) => compareOne(db, 'nodes', node_id);
export const compareAllocation = (db: Queryable, { allocation_id }: AllocationRow) =>
  compareOne(db, 'allocations', allocation_id);
