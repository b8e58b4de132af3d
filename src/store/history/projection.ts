/**
 * Rebuilds the rows of nodes and allocations from their facts. If a row differs from its facts,
 * something wrote the row without a transition. The drift sweep reports it.
 */
import { isOwn } from '../evidence/own-facts.ts';
import type { Queryable, Row } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';

export interface Projected {
  table: 'nodes' | 'allocations';
  key: 'node_id' | 'allocation_id';
  /**
   * Facts of kind `<noun>.…` that the server wrote have the changed column values in `data.set`.
   */
  noun: 'node' | 'allocation';
}

export const nodes: Projected = { table: 'nodes', key: 'node_id', noun: 'node' };
export const allocations: Projected = { table: 'allocations', key: 'allocation_id', noun: 'allocation' };
export const projected: readonly Projected[] = [nodes, allocations];

/**
 * SQL that is true if a fact contains changes of a row. `fact` is the alias of the evidence table
 * in the query.
 */
export const changesRow = ({ noun }: Projected, fact: string): string =>
  `${fact}.kind like '${noun}.%'
   and ${fact}.data ? 'set'
   and ${isOwn(fact)}`;

/**
 * SQL that merges the `set` of each row's facts in commit order. The first fact and each snapshot
 * set every column, so the result is complete.
 */
export const rebuiltRows = (of: Projected, where: string): string => `
  select rebuilt.*
  from (
    select jsonb_merged(fact.data -> 'set' order by fact.xid, fact.seq) as set
    from evidence fact
    where ${changesRow(of, 'fact')}
      and ${where}
    group by fact.${of.key}
  ) merged,
  jsonb_populate_record(null::${of.table}, merged.set) rebuilt`;

/** Rebuilds all rows, or those with these ids. */
const rebuild = <R extends Row>(db: Queryable, of: Projected, ids?: string[]): Promise<R[]> =>
  db.query<R>(
    `${rebuiltRows(of, `($1::text[] is null or fact.${of.key} = any($1))`)}
     order by rebuilt.${of.key}`,
    [ids ?? null],
  );

export const rebuildNodes = (db: Queryable, ids?: string[]): Promise<NodeRow[]> => rebuild<NodeRow>(db, nodes, ids);

export const rebuildAllocations = (db: Queryable, ids?: string[]): Promise<AllocationRow[]> =>
  rebuild<AllocationRow>(db, allocations, ids);
