/**
 * Finds quarantined nodes whose machine is proven gone and that no operation is working on.
 * Quarantine has no deadline, so such a node would occupy a slot of its pool forever. Operations no
 * longer leave such nodes, but earlier versions did.
 */
import type { AllocationId, CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import { recordedByServerSql } from '../evidence/own-facts.ts';
import type { Queryable, Transaction } from '../pg/database.ts';

export interface ProvenGoneNode {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  pool: string;
  status: 'quarantined';
  status_since: Date;
  correlation_id: CorrelationId | null;
  /** The last allocation of the node. */
  allocation_id: AllocationId | null;
  proof: 'absent' | 'revoked';
  proven_at: Date;
  observed_state: string | null;
  observed_at: Date | null;
}

/** Whether the provider showed the machine after the proof, which refutes the proof. */
export const isSeenSince = ({ proven_at, observed_at, observed_state }: ProvenGoneNode): boolean =>
  observed_at !== null && observed_at > proven_at && observed_state !== 'absent';

/**
 * A revoked credential is a proof only if it was revoked by a release or a retirement. Otherwise
 * the machine may still be in its rack, and an operator may let it enrol again.
 */
const proofs = `
  select 'absent' as proof, fact.at as proven_at
  from evidence fact
  where fact.node_instance_id = node.node_instance_id
    and fact.layer = 'provider'
    and fact.kind = 'proof.absent'
    and ${recordedByServerSql('fact')}
  union all
  select 'absent', entry.settled_at
  from residue entry
  where entry.node_instance_id = node.node_instance_id
    and entry.status = 'gone'
    and entry.proof ->> 'kind' = 'absent'
  union all
  select 'revoked', fact.at
  from evidence fact
  join operations operation on operation.workflow_id = fact.workflow_id
  where fact.node_instance_id = node.node_instance_id
    and fact.layer = 'provider'
    and fact.kind = 'proof.revoked'
    and ${recordedByServerSql('fact')}
    and operation.status = 'succeeded'
    and operation.kind in ('allocation-release', 'allocation-force-release', 'node-retire')`;

const isBusy = (excludedWorkflow: string) => `
  exists (
    select from operations work
    where work.node_id = node.node_id
      and work.status in ('queued', 'running', 'cancelling')
      and work.workflow_id is distinct from ${excludedWorkflow})
  or exists (
    select from allocations held
    where held.node_id = node.node_id
      and held.status in ('releasing', 'release_failed'))`;

const lastAllocation = `
  (select last.allocation_id
   from allocations last
   where last.node_id = node.node_id
   order by last.status_since desc
   limit 1)`;

/** Returns the given nodes that are quarantined, proven gone and not busy. */
export const findProvenGoneNodes = (db: Queryable, node_ids: readonly string[]): Promise<ProvenGoneNode[]> =>
  node_ids.length === 0
    ? Promise.resolve([])
    : db.query<ProvenGoneNode>(
        `select node.node_id, node.node_instance_id, node.pool, node.status, node.status_since,
           node.correlation_id, ${lastAllocation} as allocation_id, newest.proof, newest.proven_at,
           node.observed_state, node.observed_at
         from nodes node
         cross join lateral (
           select *
           from (${proofs}) each
           order by proven_at desc
           limit 1
         ) newest
         where node.node_id = any($1)
           and node.status = 'quarantined'
           and not (${isBusy('null')})
         order by node.node_id`,
        [node_ids],
      );

/** Reads the next quarantined nodes after `cursor`, in the order of their ids. */
export async function listQuarantinedAfter(db: Queryable, cursor: string, limit: number): Promise<NodeId[]> {
  const rows = await db.query<{ node_id: NodeId }>(
    `select node_id
     from nodes
     where status = 'quarantined'
       and node_id > $1
     order by node_id
     limit $2`,
    [cursor, limit],
  );
  return rows.map(({ node_id }) => node_id);
}

/**
 * Whether an operation other than `workflow_id` works on the node, or an allocation of the node is
 * in release or waits for a retry of its release. The caller must hold the row lock of the node.
 */
export async function hasOtherWork(tx: Transaction, node_id: NodeId, workflow_id: string | null): Promise<boolean> {
  const rows = await tx.query(`select from nodes node where node.node_id = $1 and (${isBusy('$2')})`, [
    node_id,
    workflow_id,
  ]);
  return rows.length > 0;
}
