/** What a forced release left of a machine and nobody has settled. */
import type { Queryable } from '../pg/database.ts';

export async function openResidueOf(db: Queryable, node_id: string): Promise<string[]> {
  const rows = await db.query<{ residue_id: string }>(
    `select residue_id from residue where node_id = $1 and status = 'open' and why = 'force-release' order by residue_id`,
    [node_id],
    { often: true },
  );
  return rows.map((row) => row.residue_id);
}
