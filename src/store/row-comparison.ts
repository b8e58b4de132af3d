/**
 * Rows held against what their evidence says. Row and evidence are written in one transaction and read here in one snapshot, so
 * a change under way is seen whole or not at all. Reads only.
 */
import type { AllocationId, NodeId, NodeInstanceId } from '../base/ids.ts';
import type { AllocationRow } from './allocations.ts';
import type { Database, Queryable } from './database.ts';
import type { Disagreement, Side } from './findings.ts';
import type { NodeRow } from './nodes.ts';
import { rebuildAllocations, rebuildNodes } from './projection.ts';

export type ComparedTable = 'nodes' | 'allocations';

/** What anybody decides by. What machines say of themselves changes too often to be worth the comparison. */
const nodeColumns = [
  'status',
  'status_since',
  'node_instance_id',
  'pool_generation',
  'registered_at',
  'deadline_at',
  'budget_seconds',
  'drain_then',
] as const satisfies (keyof NodeRow)[];

const allocationColumns = [
  'status',
  'status_since',
  'node_id',
  'tenant',
  'deadline_at',
  'budget_seconds',
  'active_at',
  'released_at',
] as const satisfies (keyof AllocationRow)[];

export interface Compared {
  ours: Side;
  theirs: Side;
}

/** The columns in which the two differ, of both; nothing where they agree. */
function differences<R extends object>(columns: readonly (keyof R & string)[], row: R, told: R): Compared | undefined {
  const apart = columns.filter((column) => JSON.stringify(row[column]) !== JSON.stringify(told[column]));
  if (apart.length === 0) return undefined;
  const side = (of: R) => Object.fromEntries(apart.map((column) => [column, of[column]]));
  return { ours: side(row), theirs: side(told) };
}

interface Ids {
  pool: string;
  node_id: NodeId | null;
  node_instance_id: NodeInstanceId | null;
  allocation_id: AllocationId | null;
}

interface Comparing<R extends object> {
  key: string;
  columns: readonly (keyof R & string)[];
  rebuild(db: Queryable, ids: string[]): Promise<R[]>;
  idOf(row: R): string;
  idsOf(row: R): Ids;
}

const comparing: { nodes: Comparing<NodeRow>; allocations: Comparing<AllocationRow> } = {
  nodes: {
    key: 'node_id',
    columns: nodeColumns,
    rebuild: rebuildNodes,
    idOf: (row) => row.node_id,
    idsOf: ({ pool, node_id, node_instance_id }) => ({ pool, node_id, node_instance_id, allocation_id: null }),
  },
  allocations: {
    key: 'allocation_id',
    columns: allocationColumns,
    rebuild: rebuildAllocations,
    idOf: (row) => row.allocation_id,
    idsOf: ({ pool, node_id, allocation_id }) => ({ pool, node_id, node_instance_id: null, allocation_id }),
  },
};

async function compare<R extends object>(
  db: Queryable,
  { rebuild, idOf, idsOf, columns }: Comparing<R>,
  rows: R[],
): Promise<{ agreeing: string[]; differing: Disagreement[] }> {
  const told = new Map((await rebuild(db, rows.map(idOf))).map((row) => [idOf(row), row]));
  const agreeing: string[] = [];
  const differing: Disagreement[] = [];
  for (const row of rows) {
    const rebuilt = told.get(idOf(row));
    // Of what no evidence is left, evidence says nothing.
    const apart = rebuilt && differences(columns, row, rebuilt);
    if (apart) differing.push({ what: 'row_differs', subject: idOf(row), ...idsOf(row), ...apart });
    else if (rebuilt) agreeing.push(idOf(row));
  }
  return { agreeing, differing };
}

export interface ComparedSlice {
  agreeing: string[];
  differing: Disagreement[];
  /** Where the next slice begins; empty when this one was the last. */
  cursor: string;
}

/** The next rows after `cursor`, and besides them those in doubt. */
export function compareSlice(
  db: Database,
  table: ComparedTable,
  cursor: string,
  doubted: readonly string[],
  limit: number,
): Promise<ComparedSlice> {
  return db.transaction(async (tx) => {
    await tx.query('set transaction isolation level repeatable read, read only');
    return table === 'nodes'
      ? sliceOf(tx, table, comparing.nodes, cursor, doubted, limit)
      : sliceOf(tx, table, comparing.allocations, cursor, doubted, limit);
  });
}

async function sliceOf<R extends object>(
  tx: Queryable,
  table: ComparedTable,
  way: Comparing<R>,
  cursor: string,
  doubted: readonly string[],
  limit: number,
): Promise<ComparedSlice> {
  const next = await tx.query<R>(`select * from ${table} where ${way.key} > $1 order by ${way.key} limit $2`, [
    cursor,
    limit,
  ]);
  const turn = new Set(next.map(way.idOf));
  const besides = doubted.filter((id) => !turn.has(id));
  const others =
    besides.length === 0 ? [] : await tx.query<R>(`select * from ${table} where ${way.key} = any($1)`, [besides]);
  const last = next.at(-1);
  const compared = await compare(tx, way, [...next, ...others]);
  return { ...compared, cursor: next.length === limit && last ? way.idOf(last) : '' };
}

/** One row, which the caller has locked, so that nothing about it is under way. */
export async function compareNode(db: Queryable, row: NodeRow): Promise<Compared | undefined> {
  return (await compare(db, comparing.nodes, [row])).differing[0];
}

export async function compareAllocation(db: Queryable, row: AllocationRow): Promise<Compared | undefined> {
  return (await compare(db, comparing.allocations, [row])).differing[0];
}
