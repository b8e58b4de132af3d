/**
 * Compares every row with its evidence, and all evidence with its rows. A row that differs, a row
 * without evidence and evidence without a row all mean that something bypassed a transition. All
 * columns are compared; the periodic drift pass compares only `decisiveColumns`.
 */
import type { RowDifference } from '../../contract/supervision/finding.ts';
import type { RetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import { recordedByServerSql } from '../evidence/own-facts.ts';
import type { Queryable } from '../pg/database.ts';
import { allocations, nodes, type Projection, rebuiltRowsSql } from './projection.ts';
import { findProvenGoneNodes, type ProvenGoneNode } from './proven-gone-nodes.ts';
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
const projections: Record<ComparedTable, Projection> = { nodes, allocations };

interface SubjectRow {
  id: string;
  pool: string;
  status: string;
}

/** Selects the rows whose missing evidence is not explained by retention. */
const unexplainedSql = ({ table, key }: Projection): string => `
  select ${key} as id, pool, status
  from ${table} stored
  where ${key} = any($1)
    and not (
      status = '${finalStatuses[table]}'
      and exists (select from evidence_cuts cut where cut.before > stored.status_since)
    )
  order by 1`;

/**
 * Whether retention deleted the row of `rebuilt`: it was in a final status, and the fact of its
 * deletion exists or was itself dropped. $3 is the number of seconds for which retention keeps such
 * a row. The fact of the deletion is written after that time.
 */
const isPruned = ({ table, key, noun }: Projection): string => `
  rebuilt.status = '${finalStatuses[table]}'
  and (
    exists (
      select from evidence fact
      where fact.${key} = rebuilt.${key}
        and fact.kind = '${noun}.pruned'
        and ${recordedByServerSql('fact')})
    or exists (
      select from evidence_cuts cut
      where cut.layer = 'store'
        and cut.before > rebuilt.status_since + make_interval(secs => $3)))`;

/** Selects evidence without a row, in the same range of ids as the compared rows. */
const missingRowsSql = (projection: Projection): string => `
  select rebuilt.${projection.key} as id, rebuilt.pool, rebuilt.status
  from (${rebuiltRowsSql(
    projection,
    `fact.${projection.key} > $1
      and ($2 = '' or fact.${projection.key} <= $2)
      and not exists (select from ${projection.table} stored where stored.${projection.key} = fact.${projection.key})`,
  )}) rebuilt
  where not (${isPruned(projection)})
  order by 1`;

export async function verifySlice(
  db: Queryable,
  table: ComparedTable,
  { cursor, limit }: { cursor: string; limit: number },
  keep: RetentionSeconds,
): Promise<VerifiedSlice> {
  const projection = projections[table];
  const slice = await compareSlice(db, table, { cursor, limit, thoroughness: 'every' });
  const unexplained = await db.query<SubjectRow>(unexplainedSql(projection), [slice.without_evidence]);
  const missing = await db.query<SubjectRow>(missingRowsSql(projection), [cursor, slice.cursor, keep[table]]);
  return {
    compared: slice.compared + missing.length,
    untold: slice.without_evidence.length - unexplained.length,
    differing: [
      ...slice.differing.map(({ subject, pool, ours, theirs }) => ({ subject, pool, ours, theirs })),
      ...unexplained.map(({ id, pool, status }) => ({ subject: id, pool, ours: { status }, theirs: {} })),
      ...missing.map(({ id, pool, status }) => ({ subject: id, pool, ours: {}, theirs: { status } })),
    ],
    unretired: table === 'nodes' ? await findProvenGoneNodes(db, slice.slice_ids) : [],
    cursor: slice.cursor,
  };
}
