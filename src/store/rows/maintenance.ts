/** Stores maintenance windows. Verdicts pause for the nodes that an active window covers. */
import type { NodeId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { Labels } from '../../contract/primitives.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Queryable, Transaction } from '../pg/database.ts';

export interface MaintenanceRow {
  name: string;
  pool: string | null;
  zone: string | null;
  labels: Labels;
  starts_at: Date;
  ends_at: Date;
  reason: string;
  actor: Actor | null;
  created_at: Date;
}

export const listActiveWindows = (db: Queryable, now: Date): Promise<MaintenanceRow[]> =>
  db.query<MaintenanceRow>(
    `select name, pool, zone, labels, starts_at, ends_at, reason, actor, created_at
     from maintenance_windows
     where starts_at <= $1
       and ends_at > $1
     order by ends_at desc`,
    [now],
    { prepared: true },
  );

/** Lists present and future windows. */
export const listWindows = (db: Queryable, now: Date): Promise<MaintenanceRow[]> =>
  db.query<MaintenanceRow>('select * from maintenance_windows where ends_at > $1 order by starts_at, name', [now]);

/** Whether a window covers a node. All conditions of the window must match. */
export const coversNode = (
  window: MaintenanceRow,
  node: { pool: string; zone: string | null; labels: Labels },
): boolean =>
  (window.pool === null || window.pool === node.pool) &&
  (window.zone === null || window.zone === node.zone) &&
  Object.entries(window.labels).every(([key, value]) => node.labels[key] === value);

/** Reads the labels of nodes. Rules need them only while a window is active. */
export async function readNodeLabels(db: Queryable, nodes: readonly NodeId[]): Promise<Map<NodeId, Labels>> {
  const rows = await db.query<{ node_id: NodeId; labels: Labels }>(
    'select node_id, labels from nodes where node_id = any($1)',
    [nodes],
  );
  return new Map(rows.map(({ node_id, labels }) => [node_id, labels]));
}

/**
 * The SQL form of `coversNode`, for windows that are active at `now`. Expects the aliases `node`
 * and, for the window, `maintenance`.
 */
export const coversNodeNow = (now: string): string =>
  `maintenance.starts_at <= ${now}
   and maintenance.ends_at > ${now}
   and (maintenance.pool is null or maintenance.pool = node.pool)
   and (maintenance.zone is null or maintenance.zone = node.zone)
   and node.labels @> maintenance.labels`;

/**
 * SQL that is true if no active window covers the node. Only these nodes count in a mass failure.
 */
export const isUncovered = (now: string): string =>
  `not exists (
    select 1
    from maintenance_windows maintenance
    where ${coversNodeNow(now)})`;

export async function putWindow(tx: Transaction, window: MaintenanceRow): Promise<MaintenanceRow> {
  const [row] = await tx.query<MaintenanceRow>(
    `insert into maintenance_windows (name, pool, zone, labels, starts_at, ends_at, reason, actor, created_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
     on conflict (name) do update
       set pool = $2, zone = $3, labels = $4, starts_at = $5, ends_at = $6, reason = $7, actor = $8
     returning *`,
    [
      window.name,
      window.pool,
      window.zone,
      window.labels,
      window.starts_at,
      window.ends_at,
      tx.redact.text(window.reason),
      window.actor,
      window.created_at,
    ],
  );
  await recordEvidence(tx, [
    {
      at: window.created_at,
      layer: 'operator',
      kind: 'maintenance.declared',
      summary: `maintenance ${window.name} until ${window.ends_at.toISOString()}: ${window.reason}`,
      data: { ...window, actor: undefined },
      actor: window.actor,
    },
  ]);
  return row ?? window;
}

export async function endWindow(tx: Transaction, name: string, actor: Actor, now: Date): Promise<boolean> {
  const rows = await tx.query('delete from maintenance_windows where name = $1 returning name', [name]);
  if (rows.length === 0) return false;
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'operator',
      kind: 'maintenance.ended',
      summary: `maintenance ${name} was ended`,
      data: { name },
      actor,
    },
  ]);
  return true;
}
