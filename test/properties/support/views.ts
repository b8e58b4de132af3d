/** Where every sequence stands at the beginning of a round, read at once for all of them. */
import type { AllocationId, NodeId, NodeInstanceId, WorkflowId } from '../../../src/base/ids.ts';
import type { AllocationStatus, NodeStatus } from '../../../src/lifecycle/model/states.ts';
import type { Database } from '../../../src/store/pg/database.ts';
import type { Sequence, Throws } from './sequences.ts';

export interface NodeView {
  node_id: NodeId;
  name: string;
  pool: string;
  status: NodeStatus;
  node_instance_id: NodeInstanceId;
  registered: boolean;
  held: boolean;
  /** Nothing its instance says counts any more. */
  fenced: boolean;
  /** Set aside by a release that was forced: nobody knows what is left on it. */
  unproven: boolean;
  prerequisites: string | null;
  /** Its instances of before. */
  former: NodeInstanceId[];
}

export interface AllocationView {
  allocation_id: AllocationId;
  pool: string;
  status: AllocationStatus;
  node_id: NodeId | null;
  workflow_id: WorkflowId | null;
  /** The operation that waits to bring a machine up for it. */
  provision: WorkflowId | null;
}

/** One sequence's turn: where it stands, and what it threw. */
export interface Turn {
  sequence: Sequence;
  throws: Throws;
  nodes: NodeView[];
  allocations: AllocationView[];
  /** The machine that the throw fell on; none has appeared yet where it is missing. */
  node: NodeView | undefined;
  tell(text: string): void;
}

export interface Standing {
  nodes: NodeView[];
  allocations: AllocationView[];
}

export const machineName = (index: number) => `s-${index}`;

/** The sequence that a machine or an allocation belongs to. */
export const sequenceIndexOf = ({ pool, name }: { pool: string; name?: string | null }): number =>
  Number((pool.startsWith('own-') ? pool : (name ?? '')).replace(/^\D+/, ''));

const nodesSql = `
  select node_id, name, pool, status, node_instance_id, registered_at is not null as registered, held is not null as held, prerequisites,
    exists (select 1 from instances instance where instance.node_instance_id = node.node_instance_id and fenced_at is not null) as fenced,
    status = 'quarantined' and exists (select 1 from evidence where evidence.node_id = node.node_id and data ->> 'by' = 'force-release') as unproven,
    coalesce((select array_agg(instance.node_instance_id order by attempt) from instances instance
      where instance.node_id = node.node_id and instance.node_instance_id <> node.node_instance_id), '{}') as former
  from nodes node order by created_at, node_id`;

const allocationsSql = `
  select allocation_id, pool, status, node_id, workflow_id, (select operation.workflow_id from operations operation
      where operation.allocation_id = allocation.allocation_id and operation.status = 'queued' and operation.kind = 'node-provision'
      order by operation.created_at limit 1) as provision
  from allocations allocation order by created_at, allocation_id`;

export async function standings(db: Database): Promise<Map<number, Standing>> {
  const bySequence = new Map<number, Standing>();
  const of = (index: number): Standing => {
    const known = bySequence.get(index) ?? { nodes: [], allocations: [] };
    bySequence.set(index, known);
    return known;
  };
  const [nodes, allocations] = await Promise.all([
    db.query<NodeView>(nodesSql),
    db.query<AllocationView>(allocationsSql),
  ]);
  for (const node of nodes) of(sequenceIndexOf(node)).nodes.push(node);
  for (const allocation of allocations) of(sequenceIndexOf(allocation)).allocations.push(allocation);
  return bySequence;
}
