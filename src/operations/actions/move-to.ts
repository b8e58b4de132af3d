/** The actions that are one change of status, and at most an operation that follows it. */
import { newWorkflowId } from '../../base/ids.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { Cause } from '../../lifecycle/model/transitions.ts';
import { type NewOperation, queueOperation } from '../../store/operations/queue-operation.ts';
import type { NodeChanges } from '../../store/transitions/node-move.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { type Acting, type Action, changedMeanwhile, citing, deadlineIn } from './acting.ts';

interface Move {
  to: NodeStatus;
  by: Cause;
  says(acting: Acting): string;
  set?(acting: Acting): NodeChanges;
  /** Follows what comes of it, until it is over. */
  followed_by?: Pick<NewOperation, 'kind' | 'revision' | 'tenant' | 'params' | 'steps'>;
  /** In the same transaction. */
  also?(acting: Acting): Promise<void>;
}

export const moveTo = ({ to, by, says, set, also, followed_by }: Move): Action => ({
  predict: (acting) => ({ status: to, deadline_at: deadlineIn(to, acting), says: says(acting) }),
  async act(acting) {
    const { tx, services, node, at } = acting;
    const { actor, correlation_id } = citing(acting);
    const operation = followed_by && { workflow_id: newWorkflowId(services.clock), correlation_id };
    const move = {
      node_id: node.node_id,
      from: [node.status],
      to,
      by,
      ...citing(acting),
      ...operation,
      set: { ...set?.(acting), ...operation },
    };
    const [outcome] = await transition(tx, [move], at, services.environment);
    if (!outcome?.moved) throw changedMeanwhile();
    await also?.(acting);
    const { node_id, node_instance_id } = node;
    if (followed_by && operation)
      await queueOperation(tx, { ...followed_by, ...operation, actor, node_id, node_instance_id }, at);
    return operation?.workflow_id;
  },
});
