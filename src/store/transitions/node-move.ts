/** A requested change of one node's status. */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { NodeRow } from '../rows/nodes.ts';
import type { TransitionCause } from './entering-status.ts';

/** Columns that a status change may write along with the status. */
export type NodeChanges = Partial<
  Pick<
    NodeRow,
    | 'node_instance_id'
    | 'workflow_id'
    | 'correlation_id'
    | 'registered_at'
    | 'endpoint'
    | 'reported_status'
    | 'observed_state'
    | 'observed_at'
    | 'pool_generation'
    | 'restarts'
    | 'drain_then'
    | 'prerequisites'
  >
>;

export interface NodeMove extends TransitionCause {
  node_id: NodeId;
  to: NodeStatus;
  /** The move is refused if the node has another instance by now. */
  node_instance_id?: NodeInstanceId;
  /** The move is refused from other statuses. If absent, only the transition table decides. */
  from?: readonly NodeStatus[];
  set?: NodeChanges;
}
