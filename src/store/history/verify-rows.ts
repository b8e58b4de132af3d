/**
 * Every row held against its evidence, and every story against its row: a row that differs, one that nobody told of, and a story whose
 * row is gone all came past the door. Reads only, and more than the periodic pass does.
 */
import type { RowDifference } from '../../contract/supervision/finding.ts';
import type { Queryable } from '../pg/database.ts';
import { allocations, nodes, type Projected, rebuiltRows } from './projection.ts';
import { type ProvenGoneNode, provenGoneNodes } from './proven-gone-nodes.ts';
import { type ComparedTable, compareSlice } from './row-comparison.ts';

export interface VerifiedSlice {
  compared: number;
  /** Of these no evidence is left, since their time was over. */
  untold: number;
  differing: RowDifference[];
  /** Nodes whose machine is proven gone and that are not retired. */
  unretired: ProvenGoneNode[];
  cursor: string;
}

/** What is over for good may outlive its evidence; whatever else loses it is told of by a snapshot before. */
const ended: Record<ComparedTable, string> = { nodes: 'retired', allocations: 'released' };
const projections: Record<ComparedTable, Projected> = { nodes, allocations };

interface Named {
  id: string;
  pool: string;
  status: string;
}

const unexplainedSql = ({ table, key }: Projected): string => `
  select ${key} as id, pool, status from ${table} kept
  where ${key} = any($1) and not (status = '${ended[table]}' and exists (select from evidence_cuts cut where cut.before > kept.status_since))
  order by 1`;

/** Within the same part of the ids as the rows that were compared. */
const rowlessSql = (of: Projected): string => `
  select told.${of.key} as id, told.pool, told.status from (${rebuiltRows(
    of,
    `fact.${of.key} > $1 and ($2 = '' or fact.${of.key} <= $2) and not exists (select from ${of.table} kept where kept.${of.key} = fact.${of.key})`,
  )}) told order by 1`;

export async function verifySlice(
  db: Queryable,
  table: ComparedTable,
  { cursor, limit }: { cursor: string; limit: number },
): Promise<VerifiedSlice> {
  const of = projections[table];
  const slice = await compareSlice(db, table, { cursor, limit, thoroughness: 'every' });
  const unexplained = await db.query<Named>(unexplainedSql(of), [slice.untold]);
  const rowless = await db.query<Named>(rowlessSql(of), [cursor, slice.cursor]);
  return {
    compared: slice.compared + rowless.length,
    untold: slice.untold.length - unexplained.length,
    differing: [
      ...slice.differing.map(({ subject, pool, ours, theirs }) => ({ subject, pool, ours, theirs })),
      ...unexplained.map(({ id, pool, status }) => ({ subject: id, pool, ours: { status }, theirs: {} })),
      ...rowless.map(({ id, pool, status }) => ({ subject: id, pool, ours: {}, theirs: { status } })),
    ],
    unretired: table === 'nodes' ? await provenGoneNodes(db, slice.turn) : [],
    cursor: slice.cursor,
  };
}
