/** Decides in SQL whether residue keeps a node from being used again. */
import type { Queryable } from '../pg/database.ts';

/**
 * Calls a function of the schema (migration 0024). With its body inlined, the planner would scan
 * all evidence.
 */
const isUnprovenSince = (moment: string) => `not proven_since(node.node_id, ${moment})`;

/**
 * SQL that is true if the machine of `node` is not proven clean, so the node is not free: after a
 * forced release until its residue is settled, and after a served allocation failed or an instance
 * was marked unproven until a later proof.
 */
export const hasResidue = `(
  exists (
    select 1 from residue entry
    where entry.node_id = node.node_id
      and entry.why = 'force-release'
      -- Adopting residue proves nothing, so the same instance stays blocked.
      and (entry.status = 'open'
        or (entry.status = 'adopted' and entry.node_instance_id = node.node_instance_id))
  )
  or exists (
    select 1 from allocations failed
    where failed.node_id = node.node_id
      and failed.status = 'failed'
      -- The node had served the allocation.
      and failed.active_at is not null
      and ${isUnprovenSince('failed.status_since')}
  )
  or exists (
    select 1 from instances used
    where used.node_id = node.node_id
      and used.unproven_since is not null
      and ${isUnprovenSince('used.unproven_since')}
  )
)`;

/** Reads the ids of a node's residue from forced releases that is still open. */
export async function readOpenResidueIds(db: Queryable, node_id: string): Promise<string[]> {
  const rows = await db.query<{ residue_id: string }>(
    `select residue_id from residue
     where node_id = $1
       and status = 'open'
       and why = 'force-release'
     order by residue_id`,
    [node_id],
    { prepared: true },
  );
  return rows.map((row) => row.residue_id);
}
