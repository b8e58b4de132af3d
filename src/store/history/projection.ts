/**
 * Rows rebuilt from their facts. A node and an allocation are what their evidence says they are: if the two ever differ,
 * something wrote past the door, and drift can say so. Reads only.
 */
import { isOwn } from '../evidence/own-facts.ts';
import type { Queryable, Row } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';

export interface Projected {
  table: 'nodes' | 'allocations';
  key: 'node_id' | 'allocation_id';
  /** Facts whose kind begins with it carry, as `set`, what they changed of the row. */
  noun: 'node' | 'allocation';
}

export const nodes: Projected = { table: 'nodes', key: 'node_id', noun: 'node' };
export const allocations: Projected = { table: 'allocations', key: 'allocation_id', noun: 'allocation' };
export const projected: readonly Projected[] = [nodes, allocations];

export const changesRow = ({ noun }: Projected, fact: string): string =>
  `${fact}.kind like '${noun}.%' and ${fact}.data ? 'set' and ${isOwn(fact)}`;

/** Each fact overwrites what it set, in commit order; the first one, and each snapshot, set everything. */
export const rebuiltRows = (of: Projected, where: string): string => `
  select told.* from (
    select jsonb_merged(fact.data -> 'set' order by fact.xid, fact.seq) as set from evidence fact
    where ${changesRow(of, 'fact')} and ${where} group by fact.${of.key}) stood,
  jsonb_populate_record(null::${of.table}, stood.set) told`;

/** All of them, or of these ids. */
const rebuild = <R extends Row>(db: Queryable, of: Projected, ids?: string[]): Promise<R[]> =>
  db.query<R>(`${rebuiltRows(of, `($1::text[] is null or fact.${of.key} = any($1))`)} order by told.${of.key}`, [
    ids ?? null,
  ]);

export const rebuildNodes = (db: Queryable, ids?: string[]): Promise<NodeRow[]> => rebuild<NodeRow>(db, nodes, ids);

export const rebuildAllocations = (db: Queryable, ids?: string[]): Promise<AllocationRow[]> =>
  rebuild<AllocationRow>(db, allocations, ids);
