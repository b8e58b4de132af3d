/**
 * Rebuilds the rows of nodes and allocations from their facts. If a row differs from its facts,
 * something wrote the row without a transition. The drift sweep reports it.
 */
import { recordedByServerSql } from '../evidence/own-facts.ts';
import type { Queryable, Row } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';

export interface Projection {
  table: 'nodes' | 'allocations';
  key: 'node_id' | 'allocation_id';
  /**
   * Facts of kind `<noun>.…` that the server wrote have the changed column values in `data.set`.
   */
  noun: 'node' | 'allocation';
}

export const nodes: Projection = { table: 'nodes', key: 'node_id', noun: 'node' };
export const allocations: Projection = { table: 'allocations', key: 'allocation_id', noun: 'allocation' };
export const allProjections: readonly Projection[] = [nodes, allocations];

/**
 * SQL that is true if a fact contains changes of a row. `fact` is the alias of the evidence table
 * in the query.
 */
export const changesRow = ({ noun }: Projection, fact: string): string =>
  `${fact}.kind like '${noun}.%'
   and ${fact}.data ? 'set'
   and ${recordedByServerSql(fact)}`;

/**
 * SQL that merges the `set` of each row's facts in commit order. The first fact and each snapshot
 * set every column, so the result is complete.
 */
export const rebuiltRowsSql = (projection: Projection, where: string): string => `
  select rebuilt.*
  from (
    select jsonb_merged(fact.data -> 'set' order by fact.xid, fact.seq) as set
    from evidence fact
    where ${changesRow(projection, 'fact')}
      and ${where}
    group by fact.${projection.key}
  ) merged,
  jsonb_populate_record(null::${projection.table}, merged.set) rebuilt`;

/** Rebuilds all rows, or those with these ids. */
const rebuild = <R extends Row>(db: Queryable, projection: Projection, ids?: string[]): Promise<R[]> =>
  db.query<R>(
    `${rebuiltRowsSql(projection, `($1::text[] is null or fact.${projection.key} = any($1))`)}
     order by rebuilt.${projection.key}`,
    [ids ?? null],
  );

export const rebuildNodes = (db: Queryable, ids?: string[]): Promise<NodeRow[]> => rebuild<NodeRow>(db, nodes, ids);

export const rebuildAllocations = (db: Queryable, ids?: string[]): Promise<AllocationRow[]> =>
  rebuild<AllocationRow>(db, allocations, ids);
