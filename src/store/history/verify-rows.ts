/**
 * Compares every row with its evidence, and all evidence with its rows. A row that differs, a row
 * without evidence and evidence without a row all mean that something bypassed a transition. This
 * checks every column, while the periodic drift pass checks only `decisiveColumns`.
 */
import type { RowDifference } from '../../contract/supervision/finding.ts';
import { isOwn } from '../evidence/own-facts.ts';
import type { Queryable } from '../pg/database.ts';
import { allocations, nodes, type Projected, rebuiltRows } from './projection.ts';
import { type ProvenGoneNode, provenGoneNodes } from './proven-gone-nodes.ts';
import { type ComparedTable, compareSlice } from './row-comparison.ts';

export interface VerifiedSlice {
  compared: number;
  /** The number of rows whose evidence was dropped after its retention time. */
  untold: number;
  differing: RowDifference[];
  /** Nodes whose machine is proven gone and that are not retired. */
  unretired: ProvenGoneNode[];
  cursor: string;
}

/**
 * Only rows in a final status may outlive their evidence. Other rows get a snapshot before their
 * evidence is dropped.
 */
const finalStatuses: Record<ComparedTable, string> = { nodes: 'retired', allocations: 'released' };
const projections: Record<ComparedTable, Projected> = { nodes, allocations };

interface SubjectRow {
  id: string;
  pool: string;
  status: string;
}

/** Selects the rows whose missing evidence is not explained by retention. */
const unexplainedSql = ({ table, key }: Projected): string => `
  select ${key} as id, pool, status
  from ${table} stored
  where ${key} = any($1)
    and not (
      status = '${finalStatuses[table]}'
      and exists (select from evidence_cuts cut where cut.before > stored.status_since)
    )
  order by 1`;

/**
 * Whether retention deleted the row of `rebuilt`: it was in a final status, and the fact of the
 * deletion is there or was itself dropped since.
 */
const isPruned = ({ table, key, noun }: Projected): string => `
  rebuilt.status = '${finalStatuses[table]}'
  and (
    exists (
      select from evidence fact
      where fact.${key} = rebuilt.${key}
        and fact.kind = '${noun}.pruned'
        and ${isOwn('fact')})
    or exists (
      select from evidence_cuts cut
      where cut.layer = 'store'
        and cut.before > rebuilt.status_since))`;

/** Selects evidence without a row, in the same range of ids as the compared rows. */
const rowlessSql = (of: Projected): string => `
  select rebuilt.${of.key} as id, rebuilt.pool, rebuilt.status
  from (${rebuiltRows(
    of,
    `fact.${of.key} > $1
      and ($2 = '' or fact.${of.key} <= $2)
      and not exists (select from ${of.table} stored where stored.${of.key} = fact.${of.key})`,
  )}) rebuilt
  where not (${isPruned(of)})
  order by 1`;

export async function verifySlice(
  db: Queryable,
  table: ComparedTable,
  { cursor, limit }: { cursor: string; limit: number },
): Promise<VerifiedSlice> {
  const of = projections[table];
  const slice = await compareSlice(db, table, { cursor, limit, thoroughness: 'every' });
  const unexplained = await db.query<SubjectRow>(unexplainedSql(of), [slice.without_evidence]);
  const rowless = await db.query<SubjectRow>(rowlessSql(of), [cursor, slice.cursor]);
  return {
    compared: slice.compared + rowless.length,
    untold: slice.without_evidence.length - unexplained.length,
    differing: [
      ...slice.differing.map(({ subject, pool, ours, theirs }) => ({ subject, pool, ours, theirs })),
      ...unexplained.map(({ id, pool, status }) => ({ subject: id, pool, ours: { status }, theirs: {} })),
      ...rowless.map(({ id, pool, status }) => ({ subject: id, pool, ours: {}, theirs: { status } })),
    ],
    unretired: table === 'nodes' ? await provenGoneNodes(db, slice.slice_ids) : [],
    cursor: slice.cursor,
  };
}
