/**
 * Rows rebuilt from their facts. A node and an allocation are what their evidence says they are: if the two ever differ,
 * something wrote past the door, and drift can say so. Reads only.
 */
import type { AllocationRow } from './allocations.ts';
import type { Queryable, Row } from './database.ts';
import type { NodeRow } from './nodes.ts';

interface Projected {
  table: 'nodes' | 'allocations';
  key: 'node_id' | 'allocation_id';
  /** Facts of this kind carry, as `set`, what they changed of the row. */
  kinds: string;
}

/** Each fact overwrites what it set; the first one set everything. All of them, or of these ids. */
async function rebuild<R extends Row>(db: Queryable, { table, key, kinds }: Projected, ids?: string[]): Promise<R[]> {
  const facts = await db.query<{ id: string; set: Record<string, unknown> }>(
    `select ${key} as id, data -> 'set' as set from evidence
     where kind like $1 and data ? 'set' and ($2::text[] is null or ${key} = any($2)) order by xid, seq`,
    [kinds, ids ?? null],
  );
  const rows = new Map<string, Record<string, unknown>>();
  for (const { id, set } of facts) rows.set(id, { ...rows.get(id), ...set });
  return db.query<R>(`select * from jsonb_populate_recordset(null::${table}, $1::jsonb) order by ${key}`, [
    JSON.stringify([...rows.values()]),
  ]);
}

export const rebuildNodes = (db: Queryable, ids?: string[]): Promise<NodeRow[]> =>
  rebuild<NodeRow>(db, { table: 'nodes', key: 'node_id', kinds: 'node.%' }, ids);

export const rebuildAllocations = (db: Queryable, ids?: string[]): Promise<AllocationRow[]> =>
  rebuild<AllocationRow>(db, { table: 'allocations', key: 'allocation_id', kinds: 'allocation.%' }, ids);
