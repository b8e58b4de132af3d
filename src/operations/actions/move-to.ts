/** The actions that are one change of status, and at most an operation that follows it. */
import { secondsLater } from '../../base/clock.ts';
import { newWorkflowId } from '../../base/ids.ts';
import { type NodeStatus, nodeStatuses } from '../../lifecycle/states.ts';
import type { Cause } from '../../lifecycle/transitions.ts';
import type { NodeChanges } from '../../store/door.ts';
import { transition } from '../../store/door.ts';
import { budgetOf } from '../../store/door-rules.ts';
import { type NewOperation, queueOperation } from '../../store/operations.ts';
import { type Acting, type Action, changedMeanwhile, citing } from './acting.ts';

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
  async predict(acting) {
    const { node, pool, services, at } = acting;
    const phase = nodeStatuses[to].deadline;
    const budget = phase && budgetOf(phase, pool, services.environment, node.requested_provision_seconds);
    return { status: to, deadline_at: budget ? secondsLater(at, budget.seconds) : null, says: says(acting) };
  },
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
