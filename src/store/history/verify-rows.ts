/**
 * Compares every row with its evidence and all evidence with its rows. A row that differs, a row
 * without evidence, and evidence without a row were all written without a transition. Reads only,
 * and checks more than the periodic drift pass.
 */
import type { RowDifference } from '../../contract/supervision/finding.ts';
import type { Queryable } from '../pg/database.ts';
import { allocations, nodes, type Projected, rebuiltRows } from './projection.ts';
import { type ProvenGoneNode, provenGoneNodes } from './proven-gone-nodes.ts';
import { type ComparedTable, compareSlice } from './row-comparison.ts';

export interface VerifiedSlice {
  compared: number;
  /** Rows whose evidence was dropped after its retention time. */
  untold: number;
  differing: RowDifference[];
  /** Nodes whose machine is proven gone and that are not retired. */
  unretired: ProvenGoneNode[];
  cursor: string;
}

/**
 * Only rows in a final status may outlive their evidence; others get a snapshot before it is
 * dropped.
 */
const final: Record<ComparedTable, string> = { nodes: 'retired', allocations: 'released' };
const projections: Record<ComparedTable, Projected> = { nodes, allocations };

interface Named {
  id: string;
  pool: string;
  status: string;
}

const unexplainedSql = ({ table, key }: Projected): string => `
  select ${key} as id, pool, status
  from ${table} stored
  where ${key} = any($1)
    and not (
      status = '${final[table]}'
      and exists (select from evidence_cuts cut where cut.before > stored.status_since)
    )
  order by 1`;

/** In the same range of ids as the compared rows. */
const rowlessSql = (of: Projected): string => `
  select rebuilt.${of.key} as id, rebuilt.pool, rebuilt.status
  from (${rebuiltRows(
    of,
    `fact.${of.key} > $1
      and ($2 = '' or fact.${of.key} <= $2)
      and not exists (select from ${of.table} stored where stored.${of.key} = fact.${of.key})`,
  )}) rebuilt
  order by 1`;

export async function verifySlice(
  db: Queryable,
  table: ComparedTable,
  { cursor, limit }: { cursor: string; limit: number },
): Promise<VerifiedSlice> {
  const of = projections[table];
  const slice = await compareSlice(db, table, { cursor, limit, thoroughness: 'every' });
  const unexplained = await db.query<Named>(unexplainedSql(of), [slice.without_evidence]);
  const rowless = await db.query<Named>(rowlessSql(of), [cursor, slice.cursor]);
  return {
    compared: slice.compared + rowless.length,
    untold: slice.without_evidence.length - unexplained.length,
    differing: [
      ...slice.differing.map(({ subject, pool, ours, theirs }) => ({ subject, pool, ours, theirs })),
      ...unexplained.map(({ id, pool, status }) => ({ subject: id, pool, ours: { status }, theirs: {} })),
      ...rowless.map(({ id, pool, status }) => ({ subject: id, pool, ours: {}, theirs: { status } })),
    ],
    unretired: table === 'nodes' ? await provenGoneNodes(db, slice.turn) : [],
    cursor: slice.cursor,
  };
}
