/**
 * Rows held against what their evidence says, by the database itself: what agrees never leaves it. Row and evidence are written in one
 * transaction and read here in one statement, so a change under way is seen whole or not at all. Reads only.
 */
import { moment } from '../../base/clock.ts';
import type { AllocationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Queryable } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { Disagreement, Side } from '../rows/findings.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { allocations, nodes, type Projected, rebuiltRows } from './projection.ts';

export type ComparedTable = Projected['table'];

/** What anybody decides by. What machines say of themselves changes too often to be worth somebody's attention. */
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

/** Which columns count: those anybody decides by, or all there are. */
export type Thoroughness = 'decisive' | 'every';

const differ = (table: ComparedTable, thoroughness: Thoroughness): string => {
  if (thoroughness === 'every') return 'to_jsonb(kept) <> to_jsonb(told)';
  const of = (side: string) => decisive[table].map((column) => `${side}.${column}`).join(', ');
  return `(${of('kept')}) is distinct from (${of('told')})`;
};

/** By a list of keys: the database knows how many they are, and looks their facts up instead of reading everybody's. */
function compareSql(table: ComparedTable, thoroughness: Thoroughness): string {
  const of = projections[table];
  const { key } = of;
  return `
    select ${key} as id, to_jsonb(kept) as ours, to_jsonb(told) as theirs
    from ${table} kept left join (${rebuiltRows(of, `fact.${key} = any($1)`)}) told using (${key})
    where kept.${key} = any($1) and (told.${key} is null or ${differ(table, thoroughness)}) order by 1`;
}

interface Apart {
  id: string;
  ours: Side & {
    pool: string;
    node_id: NodeId | null;
    node_instance_id?: NodeInstanceId;
    allocation_id?: AllocationId;
  };
  /** Null where no evidence is left. */
  theirs: Side | null;
}

/** Times as everywhere on the wire; the database spells them its own way. */
const spelled = (column: string, value: unknown): unknown =>
  typeof value === 'string' && /_(at|since|from)$/.test(column) ? moment(Date.parse(value)).toISOString() : value;

/** Of both sides, what they differ in. */
function differenceOf(table: ComparedTable, { ours, theirs }: Apart, thoroughness: Thoroughness): Compared | undefined {
  if (!theirs) return undefined;
  const columns = thoroughness === 'every' ? Object.keys(ours) : decisive[table];
  const apart = columns.filter((column) => JSON.stringify(ours[column]) !== JSON.stringify(theirs[column]));
  const side = (of: Side) => Object.fromEntries(apart.map((column) => [column, spelled(column, of[column])]));
  return { ours: side(ours), theirs: side(theirs) };
}

/** A row belongs to a pool. */
type DifferingRow = Disagreement & { pool: string };

export interface ComparedSlice {
  compared: number;
  differing: DifferingRow[];
  /** Of these no evidence is left, and so it says nothing. */
  untold: string[];
  /** The rows of this turn. */
  turn: string[];
  /** Where the next slice begins; empty when this one was the last. */
  cursor: string;
}

/** The next rows after `cursor`, and besides them those in doubt. */
export async function compareSlice(
  db: Queryable,
  table: ComparedTable,
  slice: { cursor: string; limit: number; doubted?: readonly string[]; thoroughness?: Thoroughness },
): Promise<ComparedSlice> {
  const { cursor, limit, doubted = [], thoroughness = 'decisive' } = slice;
  const { key } = projections[table];
  const turn = await db.query<{ id: string }>(
    `select ${key} as id from ${table} where ${key} > $1 order by ${key} limit $2`,
    [cursor, limit],
  );
  const ids = [...new Set([...turn.map(({ id }) => id), ...doubted])];
  const found = await db.query<Apart>(compareSql(table, thoroughness), [ids]);
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
    untold: found.filter(({ theirs }) => theirs === null).map(({ id }) => id),
    cursor: turn.length === limit ? (turn.at(-1)?.id ?? '') : '',
  };
}

/** One row, which the caller has locked, so that nothing about it is under way. */
const compareOne = async (db: Queryable, table: ComparedTable, id: string): Promise<Compared | undefined> =>
  (await compareSlice(db, table, { cursor: '', limit: 0, doubted: [id] })).differing[0];

export const compareNode = (db: Queryable, { node_id }: NodeRow) => compareOne(db, 'nodes', node_id);
export const compareAllocation = (db: Queryable, { allocation_id }: AllocationRow) =>
  compareOne(db, 'allocations', allocation_id);
