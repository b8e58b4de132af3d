/**
 * Reads timelines for a caller. The cost of a tenant's page does not grow with the facts that other
 * tenants have on the same machine.
 */
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { Page } from '../../contract/primitives.ts';
import type { Visibility } from '../../lifecycle/visibility.ts';
import type { Queryable } from '../pg/database.ts';
import { parameters } from '../pg/walk.ts';
import { everHeldNodes } from '../visibility.ts';
import {
  type EvidenceFilter,
  type EvidenceRow,
  evidenceColumns,
  indexedSql,
  readTimeline,
  toWire,
  unindexedConditions,
} from './evidence.ts';

/**
 * Whether the filter selects all facts of a machine that the tenant holds or held. Such a machine
 * may have many facts of other tenants, so its pages are bounded by scanned facts. A machine that
 * the tenant never held must not be read this way: cursors of empty pages would reveal how many
 * facts there are.
 */
async function isSharedMachine(db: Queryable, filter: EvidenceFilter): Promise<boolean> {
  const { visibility, node_id, node_instance_id, allocation_id } = filter;
  if (visibility.kind === 'fleet') return false;
  if (allocation_id !== undefined || (node_id === undefined && node_instance_id === undefined)) return false;
  const { values, bind } = parameters();
  const machine = `coalesce(
    ${bind(node_id ?? null)}::text,
    (select node_id from instances where node_instance_id = ${bind(node_instance_id ?? null)}::text)
  )`;
  const [row] = await db.query<{ ever_held: boolean }>(
    `select ${everHeldNodes(visibility, machine, bind).join(' and ')} as ever_held`,
    values,
  );
  return row?.ever_held ?? false;
}

/** A page of a machine's timeline scans at most this many facts. */
const maxScannedOfMachine = 2_000;

/**
 * Reads the tenant's own facts on a shared machine. A page may be short or empty and still have a
 * next cursor.
 */
async function readShared(db: Queryable, filter: EvidenceFilter): Promise<Page<Evidence>> {
  const { values, bind } = parameters();
  const [forward, back] = filter.order === 'oldest' ? ['asc', 'desc'] : ['desc', 'asc'];
  const rows = await db.query<EvidenceRow & { end_cursor: string; scanned_rows: number }>(
    `with scanned as materialized (
       -- Other filters apply below: here, a filter that few facts pass would scan the whole history.
       ${indexedSql(filter, maxScannedOfMachine, bind)}
     ),
     visible as (
       select *
       from scanned evidence
       where ${unindexedConditions(filter, bind).join(' and ')}
       order by evidence.xid ${forward}, evidence.seq ${forward}
       limit ${filter.limit + 1}
     ),
     last as (
       select xid || '-' || seq as end_cursor, (count(*) over ())::int as scanned_rows
       from scanned
       order by scanned.xid ${back}, scanned.seq ${back}
       limit 1
     )
     select ${evidenceColumns}, end_cursor, scanned_rows
     from last
     left join visible on true
     order by visible.xid ${forward}, visible.seq ${forward}`,
    values,
  );
  const visible = rows
    .filter((row) => row.xid !== null)
    .map(({ end_cursor: _, scanned_rows: __, ...row }) => toWire(row));
  const items = visible.slice(0, filter.limit);
  if (visible.length > filter.limit) return { items, next_cursor: items.at(-1)?.cursor ?? null };
  const [first] = rows;
  return { items, next_cursor: first?.scanned_rows === maxScannedOfMachine ? first.end_cursor : null };
}

export const readVisibleTimeline = async (
  db: Queryable,
  visibility: Visibility,
  query: Omit<EvidenceFilter, 'visibility'>,
): Promise<Page<Evidence>> => {
  const filter = { ...query, visibility };
  return (await isSharedMachine(db, filter)) ? readShared(db, filter) : readTimeline(db, filter);
};
