/**
 * What the application's role may do: read and write every table, but of evidence only add to it. The tables belong to another
 * role, so it cannot give itself more; the pieces of evidence are made and dropped for it by two functions of that owner.
 */
import type pg from 'pg';

/** Only added to, like evidence itself. */
const seals = ['evidence_checkpoints', 'evidence_segments', 'evidence_late_rows', 'evidence_keys'];

/** Nothing to do for the owner itself, and for whoever has its rights already. */
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
