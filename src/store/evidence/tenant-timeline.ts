/** A tenant's view of a timeline. A page costs the same however much others did on the machine. */
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { Page } from '../../contract/primitives.ts';
import type { Queryable } from '../pg/database.ts';
import {
  columns,
  type EvidenceFilter,
  type EvidenceRow,
  matching,
  placeSql,
  readTimeline,
  toWire,
} from './evidence.ts';

type OfAnyTenant = Omit<EvidenceFilter, 'tenant'>;

/**
 * Whether the facts asked for are those of a machine that the tenant has or had. There is no end to what others did on it.
 * For a machine that was never the tenant's, a page must not tell how much happened there.
 */
async function isSharedMachine(db: Queryable, tenant: string, filter: OfAnyTenant): Promise<boolean> {
  const { node_id, node_instance_id, allocation_id } = filter;
  if (allocation_id !== undefined || (node_id === undefined && node_instance_id === undefined)) return false;
  const [row] = await db.query<{ known: boolean }>(
    `select exists (
       select from allocations
       where tenant = $1
         and node_id = coalesce($2, (select node_id from instances where node_instance_id = $3))
     ) as known`,
    [tenant, node_id ?? null, node_instance_id ?? null],
  );
  return row?.known ?? false;
}

/** A page of a machine's timeline looks at this many facts at most. */
const maxScannedOfMachine = 2_000;

/** The tenant's among the facts of a machine that others use too: a page may be short, or empty, and have a cursor. */
async function readShared(db: Queryable, tenant: string, filter: OfAnyTenant): Promise<Page<Evidence>> {
  const values: unknown[] = [];
  const bind = (value: unknown) => `$${values.push(value)}`;
  const [forward, back] = filter.order === 'oldest' ? ['asc', 'desc'] : ['desc', 'asc'];
  const rows = await db.query<EvidenceRow & { end_cursor: string; scanned_rows: number }>(
    `with scanned as materialized (
       -- Without the other filters: one that few facts pass would have the whole history read.
       ${placeSql(filter, maxScannedOfMachine, bind)}
     ),
     visible as (
       select *
       from scanned evidence
       where ${matching({ ...filter, tenant }, bind).join(' and ')}
       order by evidence.xid ${forward}, evidence.seq ${forward}
       limit ${filter.limit + 1}
     ),
     last as (
       select xid || '-' || seq as end_cursor, (count(*) over ())::int as scanned_rows
       from scanned
       order by scanned.xid ${back}, scanned.seq ${back}
       limit 1
     )
     select ${columns}, end_cursor, scanned_rows
     from last left join visible on true
     order by visible.xid ${forward}, visible.seq ${forward}`,
    values,
  );
  const found = rows
    .filter((row) => row.xid !== null)
    .map(({ end_cursor: _, scanned_rows: __, ...row }) => toWire(row));
  const items = found.slice(0, filter.limit);
  if (found.length > filter.limit) return { items, next_cursor: items.at(-1)?.cursor ?? null };
  const [first] = rows;
  return { items, next_cursor: first?.scanned_rows === maxScannedOfMachine ? first.end_cursor : null };
}

export const readTenantTimeline = async (
  db: Queryable,
  tenant: string,
  filter: OfAnyTenant,
): Promise<Page<Evidence>> =>
  (await isSharedMachine(db, tenant, filter))
    ? readShared(db, tenant, filter)
    : readTimeline(db, { ...filter, tenant });
