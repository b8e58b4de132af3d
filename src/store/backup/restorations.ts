/**
 * Records that the database was restored. While a restoration is open, the servers only observe:
 * the rows are older than the machines, so a person compares the two before the servers act again.
 */
import type pg from 'pg';
import type { Actor } from '../../contract/evidence/evidence.ts';
import { beginEraFor, markLoadedBackup, type RestoreSign } from '../evidence/eras.ts';
import type { Queryable, Transaction } from '../pg/database.ts';

export interface RestorationRow {
  restoration_id: string;
  sign: RestoreSign;
  /** When the last server before the restore stored heartbeats. Null if none ever did. */
  remembers_until: Date | null;
  began_at: Date;
  /** When every machine that can be inspected had been inspected once. */
  inspected_at: Date | null;
  ended_at: Date | null;
  ended_by: Actor | null;
  end_reason: string | null;
}

/**
 * Opens a restoration in the transaction of `client`. Ends one that is open in the backup, and
 * deletes the differences of earlier ones.
 */
export async function openRestoration(client: Pick<pg.Client, 'query'>, sign: RestoreSign): Promise<void> {
  await client.query(
    `update restorations set ended_at = clock_timestamp(), end_reason = 'the database was restored again'
     where ended_at is null`,
  );
  await client.query('delete from restoration_differences');
  await client.query(
    `insert into restorations (sign, remembers_until, began_at)
     values (
       $1,
       -- Every running server writes this twice a second.
       (select max(flushed_through) from replicas),
       clock_timestamp())`,
    [sign],
  );
}

/**
 * Begins an era of evidence and a restoration in the transaction that loaded a backup. In a schema
 * without restorations, only leaves a mark; the start that migrates the schema begins both.
 */
export async function beginRestorationOfBackup(client: Pick<pg.Client, 'query'>): Promise<void> {
  const { rows } = await client.query<{ is_present: boolean }>(
    `select to_regclass('public.restorations') is not null as is_present`,
  );
  if (!rows[0]?.is_present) {
    await markLoadedBackup(client);
    return;
  }
  await beginEraFor(client, 'backup_loaded');
  await openRestoration(client, 'backup_loaded');
}

/**
 * Whether a replica runs while a restoration is open. Without a running replica, an open
 * restoration may be part of the restored rows.
 */
export async function hasObservingReplica(client: Pick<pg.Client, 'query'>): Promise<boolean> {
  const { rows } = await client.query(
    `select 1
     from restorations, replicas
     where restorations.ended_at is null
       and replicas.ended_at is null
       and replicas.lease_until > clock_timestamp()`,
  );
  return rows.length > 0;
}

export async function readOpenRestoration(db: Queryable): Promise<RestorationRow | undefined> {
  return (await db.query<RestorationRow>('select * from restorations where ended_at is null'))[0];
}

/** Returns the newest restoration, open or ended. */
export async function readNewestRestoration(db: Queryable): Promise<RestorationRow | undefined> {
  return (await db.query<RestorationRow>('select * from restorations order by began_at desc limit 1'))[0];
}

export async function lockOpenRestoration(tx: Transaction): Promise<RestorationRow | undefined> {
  return (await tx.query<RestorationRow>('select * from restorations where ended_at is null for update'))[0];
}

export async function closeRestoration(
  tx: Transaction,
  { restoration_id, actor, reason }: { restoration_id: string; actor: Actor | null; reason: string },
  now: Date,
): Promise<void> {
  await tx.query(
    `update restorations set ended_at = $2, ended_by = $3, end_reason = $4
     where restoration_id = $1`,
    [restoration_id, now, tx.redact.value(actor), tx.redact.value(reason)],
  );
}

export async function markInspected(db: Queryable, restoration_id: string, now: Date): Promise<void> {
  await db.query('update restorations set inspected_at = coalesce(inspected_at, $2) where restoration_id = $1', [
    restoration_id,
    now,
  ]);
}
