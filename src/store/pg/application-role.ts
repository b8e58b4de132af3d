/**
 * Grants the application's role its rights: it may read and write every table, but only append to
 * evidence and its seals, and only read the tables of cuts, eras and migrations. Another role owns
 * the tables, so the application cannot grant itself more. Functions of the owner create and drop
 * the partitions of evidence.
 */
import type pg from 'pg';

/** Tables of the evidence chain, which are append-only like evidence itself. */
const sealTables = ['evidence_checkpoints', 'evidence_segments', 'evidence_late_rows', 'evidence_keys'];

/** Skips the owner. Skips a role that already has its rights, unless `hasMigrated`. */
export async function grantApplication(client: pg.Client, role: string, hasMigrated: boolean): Promise<void> {
  const { rows } = await client.query<{ granted: boolean; owner: boolean }>(
    `select has_table_privilege($1, 'evidence_cuts', 'select') as granted, current_user = $1 as owner`,
    [role],
  );
  if (rows[0]?.owner || (rows[0]?.granted && !hasMigrated)) return;
  const to = client.escapeIdentifier(role);
  const partitions = await client.query<{ name: string }>(
    `select relid::text as name from pg_partition_tree('evidence')`,
  );
  await client.query(`
    grant usage on schema public to ${to};
    grant select, insert, update, delete on all tables in schema public to ${to};
    grant usage, select on all sequences in schema public to ${to};
    revoke update, delete, truncate on ${[...partitions.rows.map(({ name }) => name), ...sealTables].join(', ')} from ${to};
    revoke insert, update, delete on evidence_cuts, evidence_eras, schema_migrations from ${to};
    grant execute on function evidence_closed_pieces, evidence_extend, evidence_cut to ${to}`);
}
