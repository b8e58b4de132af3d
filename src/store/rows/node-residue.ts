/** Decides in SQL whether residue keeps a node from being used again. */
import type { Queryable } from '../pg/database.ts';

/**
 * Calls a function of the schema (migration 0024). Inlined, the planner would scan all evidence for
 * it.
 */
const isUnprovenSince = (moment: string) => `not proven_since(node.node_id, ${moment})`;

/**
 * Whether a machine is not proven clean, so that it is not free in any status. Expects `node`. This
 * is the case:
 * - after a forced release, until the residue is settled. Adopting residue proves nothing, so the
 *   same instance stays blocked;
 * - after an allocation that the machine had served failed, until a later proof;
 * - after an instance was marked unproven, until a later proof.
 */
export const hasResidue = `(
  exists (
    select 1 from residue entry
    where entry.node_id = node.node_id
      and entry.why = 'force-release'
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
export async function openResidueOf(db: Queryable, node_id: string): Promise<string[]> {
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
