/** Reads the state of all sequences at the beginning of a round. */
import type { AllocationId, NodeId, NodeInstanceId, WorkflowId } from '../../../src/base/ids.ts';
import type { AllocationStatus, NodeStatus } from '../../../src/lifecycle/model/states.ts';
import type { Database } from '../../../src/store/pg/database.ts';
import { isPrivatePool } from './pools.ts';
import type { Draws, Sequence } from './sequences.ts';

export interface NodeView {
  node_id: NodeId;
  name: string;
  pool: string;
  status: NodeStatus;
  node_instance_id: NodeInstanceId;
  registered: boolean;
  held: boolean;
  /** Whether the node's current instance is fenced. */
  fenced: boolean;
  /** Whether a forced release quarantined the node, so that it was never proven clean. */
  unproven: boolean;
  prerequisites: string | null;
  /** The instances that the node had before its current one. */
  former: NodeInstanceId[];
}

export interface AllocationView {
  allocation_id: AllocationId;
  pool: string;
  status: AllocationStatus;
  node_id: NodeId | null;
  workflow_id: WorkflowId | null;
  /** The queued operation that will provision the allocation. */
  provision: WorkflowId | null;
}

/** The turn of a sequence in one round: its state and its random draws. */
export interface Turn {
  sequence: Sequence;
  draws: Draws;
  nodes: NodeView[];
  allocations: AllocationView[];
  /** The machine that the draw selected; undefined while the sequence has no machine. */
  node: NodeView | undefined;
  log(text: string): void;
}

export interface SequenceState {
  nodes: NodeView[];
  allocations: AllocationView[];
}

export const machineName = (index: number) => `s-${index}`;

/** Returns the index of the sequence that a machine or an allocation belongs to. */
export const sequenceIndexOf = ({ pool, name }: { pool: string; name?: string | null }): number =>
  Number((isPrivatePool(pool) ? pool : (name ?? '')).replace(/^\D+/, ''));

const nodesSql = `
  select node_id, name, pool, status, node_instance_id, prerequisites,
    registered_at is not null as registered,
    held is not null as held,
    exists (
      select 1 from instances instance
      where instance.node_instance_id = node.node_instance_id
        and fenced_at is not null
    ) as fenced,
    status = 'quarantined' and exists (
      select 1 from evidence
      where evidence.node_id = node.node_id
        and data ->> 'by' = 'force-release'
    ) as unproven,
    coalesce((
      select array_agg(instance.node_instance_id order by attempt)
      from instances instance
      where instance.node_id = node.node_id
        and instance.node_instance_id <> node.node_instance_id
    ), '{}') as former
  from nodes node
  order by created_at, node_id`;

const allocationsSql = `
  select allocation_id, pool, status, node_id, workflow_id,
    (
      select operation.workflow_id from operations operation
      where operation.allocation_id = allocation.allocation_id
        and operation.status = 'queued'
        and operation.kind = 'node-provision'
      order by operation.created_at
      limit 1
    ) as provision
  from allocations allocation
  order by created_at, allocation_id`;

export async function readStates(db: Database): Promise<Map<number, SequenceState>> {
  const bySequence = new Map<number, SequenceState>();
  const stateOf = (index: number): SequenceState => {
    const state = bySequence.get(index) ?? { nodes: [], allocations: [] };
    bySequence.set(index, state);
    return state;
  };
  const [nodes, allocations] = await Promise.all([
    db.query<NodeView>(nodesSql),
    db.query<AllocationView>(allocationsSql),
  ]);
  for (const node of nodes) stateOf(sequenceIndexOf(node)).nodes.push(node);
  for (const allocation of allocations) stateOf(sequenceIndexOf(allocation)).allocations.push(allocation);
  return bySequence;
}
