/** A change of one node's status, as a caller asks for it. */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { NodeRow } from '../rows/nodes.ts';
import type { Cited } from './entering-status.ts';

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

export interface NodeMove extends Cited {
  node_id: NodeId;
  to: NodeStatus;
  /** The instance this change is about; refused when the node has moved on to another. */
  node_instance_id?: NodeInstanceId;
  /** Only from these; otherwise the table alone decides. */
  from?: readonly NodeStatus[];
  set?: NodeChanges;
}
