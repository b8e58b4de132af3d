/**
 * The rights of the application's role: read and write every table, but only append to evidence.
 * Another role owns the tables, so the application cannot grant itself more. Functions of that
 * owner create and drop the partitions of evidence.
 */
import type pg from 'pg';

/** Append-only, like evidence itself. */
const seals = ['evidence_checkpoints', 'evidence_segments', 'evidence_late_rows', 'evidence_keys'];

/** Does nothing for the owner, or for a role that has its rights already, unless `afresh`. */
export async function grantApplication(client: pg.Client, role: string, afresh: boolean): Promise<void> {
  const { rows } = await client.query<{ granted: boolean; owner: boolean }>(
    `select has_table_privilege($1, 'evidence_cuts', 'select') as granted, current_user = $1 as owner`,
    [role],
  );
  if (rows[0]?.owner || (rows[0]?.granted && !afresh)) return;
  const to = client.escapeIdentifier(role);
  const kept = await client.query<{ name: string }>(`select relid::text as name from pg_partition_tree('evidence')`);
  await client.query(`
    grant usage on schema public to ${to};
    grant select, insert, update, delete on all tables in schema public to ${to};
    grant usage, select on all sequences in schema public to ${to};
    revoke update, delete, truncate on ${[...kept.rows.map(({ name }) => name), ...seals].join(', ')} from ${to};
    revoke insert, update, delete on evidence_cuts, schema_migrations from ${to};
    grant execute on function evidence_closed_pieces, evidence_extend, evidence_cut to ${to}`);
}
