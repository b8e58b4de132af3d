/** Residue that keeps a node from being used again. */
import type { Queryable } from '../pg/database.ts';

/** A function of the schema (migration 0024), because inline it would plan over all evidence. */
const nothingProvenSince = (moment: string) => `not proven_since(node.node_id, ${moment})`;

/**
 * Whether a machine is unproven and so not free, whatever its status. Expects `node`. Unproven:
 * - after a forced release, until the residue is settled. Adopting residue names who answers for it
 *   but proves nothing, so the same instance stays blocked;
 * - after an allocation that it had served failed, until a later proof;
 * - after an instance was marked unproven, until a later proof.
 */
export const hasResidue = `(
  exists (
    select 1 from residue rest
    where rest.node_id = node.node_id
      and rest.why = 'force-release'
      and (rest.status = 'open'
        or (rest.status = 'adopted' and rest.node_instance_id = node.node_instance_id))
  )
  or exists (
    select 1 from allocations fallen
    where fallen.node_id = node.node_id
      and fallen.status = 'failed'
      -- It had served the allocation.
      and fallen.active_at is not null
      and ${nothingProvenSince('fallen.status_since')}
  )
  or exists (
    select 1 from instances used
    where used.node_id = node.node_id
      and used.unproven_since is not null
      and ${nothingProvenSince('used.unproven_since')}
  )
)`;

/** Ids of what forced releases left of a node and nobody has settled. */
export async function openResidueOf(db: Queryable, node_id: string): Promise<string[]> {
  const rows = await db.query<{ residue_id: string }>(
    `select residue_id from residue
     where node_id = $1
       and status = 'open'
       and why = 'force-release'
     order by residue_id`,
    [node_id],
    { often: true },
  );
  return rows.map((row) => row.residue_id);
}
