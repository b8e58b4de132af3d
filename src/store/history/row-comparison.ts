/**
 * Compares rows with their evidence. The comparison runs in the database, so only rows that differ
 * are transferred. A row and its evidence are written in one transaction and read in one statement,
 * so a concurrent change appears in both or in neither.
 */
import { moment } from '../../base/clock.ts';
import type { AllocationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Queryable } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { Disagreement, Side } from '../rows/findings.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { allocations, nodes, type Projection, rebuiltRowsSql } from './projection.ts';

export type ComparedTable = Projection['table'];

/**
 * The columns that rules and operators decide by. Columns that machines report are left out,
 * because they change often and decide nothing.
 */
const decisiveColumns: Record<ComparedTable, readonly string[]> = {
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

const projections: Record<ComparedTable, Projection> = { nodes, allocations };

export interface RowSides {
  ours: Side;
  theirs: Side;
}

/** Compares only `decisiveColumns`, or every column. */
export type Thoroughness = 'decisive' | 'every';

const differSql = (table: ComparedTable, thoroughness: Thoroughness): string => {
  if (thoroughness === 'every') return 'to_jsonb(stored) <> to_jsonb(rebuilt)';
  const listColumns = (side: string) => decisiveColumns[table].map((column) => `${side}.${column}`).join(', ');
  return `(${listColumns('stored')}) is distinct from (${listColumns('rebuilt')})`;
};

/**
 * Filters by a list of keys, because the planner then looks up facts by key instead of scanning all
 * evidence.
 */
function compareSql(table: ComparedTable, thoroughness: Thoroughness): string {
  const projection = projections[table];
  const { key } = projection;
  return `
    select ${key} as id, to_jsonb(stored) as ours, to_jsonb(rebuilt) as theirs
    from ${table} stored
    left join (${rebuiltRowsSql(projection, `fact.${key} = any($1)`)}) rebuilt using (${key})
    where stored.${key} = any($1)
      and (rebuilt.${key} is null or ${differSql(table, thoroughness)})
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

/** Converts times from PostgreSQL's JSON format to ISO 8601, which findings use. */
const formatValue = (column: string, value: unknown): unknown =>
  typeof value === 'string' && /_(at|since|from)$/.test(column) ? moment(Date.parse(value)).toISOString() : value;

/** Returns the differing columns of both sides, or undefined if there is no evidence to compare. */
function findDifference(
  table: ComparedTable,
  { ours, theirs }: DifferentRow,
  thoroughness: Thoroughness,
): RowSides | undefined {
  if (!theirs) return undefined;
  const columns = thoroughness === 'every' ? Object.keys(ours) : decisiveColumns[table];
  const differing = columns.filter((column) => JSON.stringify(ours[column]) !== JSON.stringify(theirs[column]));
  const pickDiffering = (side: Side) =>
    Object.fromEntries(differing.map((column) => [column, formatValue(column, side[column])]));
  return { ours: pickDiffering(ours), theirs: pickDiffering(theirs) };
}

type DifferingRow = Disagreement & { pool: string };

export interface ComparedSlice {
  compared: number;
  differing: DifferingRow[];
  /** Rows without any evidence left, which cannot be compared. */
  without_evidence: string[];
  /** The ids of the rows of this slice, without those to recheck. */
  slice_ids: string[];
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
  const nextRows = await db.query<{ id: string }>(
    `select ${key} as id from ${table}
     where ${key} > $1
     order by ${key}
     limit $2`,
    [cursor, limit],
  );
  const ids = [...new Set([...nextRows.map(({ id }) => id), ...recheck])];
  const differentRows = await db.query<DifferentRow>(compareSql(table, thoroughness), [ids]);
  const differing = differentRows.flatMap((row): DifferingRow[] => {
    const difference = findDifference(table, row, thoroughness);
    const { pool, node_id, node_instance_id = null, allocation_id = null } = row.ours;
    const rowIds = { pool, node_id, node_instance_id, allocation_id };
    return difference ? [{ what: 'row_differs', subject: row.id, ...rowIds, ...difference }] : [];
  });
  return {
    compared: ids.length,
    differing,
    slice_ids: nextRows.map(({ id }) => id),
    without_evidence: differentRows.filter(({ theirs }) => theirs === null).map(({ id }) => id),
    cursor: nextRows.length === limit ? (nextRows.at(-1)?.id ?? '') : '',
  };
}

/** Compares one row. The caller must hold its row lock, so that the row cannot change meanwhile. */
const compareOne = async (db: Queryable, table: ComparedTable, id: string): Promise<RowSides | undefined> =>
  (await compareSlice(db, table, { cursor: '', limit: 0, recheck: [id] })).differing[0];

export const compareNode = (db: Queryable, { node_id }: NodeRow) => compareOne(db, 'nodes', node_id);
export const compareAllocation = (db: Queryable, { allocation_id }: AllocationRow) =>
  compareOne(db, 'allocations', allocation_id);
