/** The actions that are one change of status, and nothing else. */
import { secondsLater } from '../../base/clock.ts';
import { type NodeStatus, nodeStatuses } from '../../lifecycle/states.ts';
import type { Cause } from '../../lifecycle/transitions.ts';
import type { NodeChanges } from '../../store/door.ts';
import { transition } from '../../store/door.ts';
import { budgetOf } from '../../store/door-rules.ts';
import { type Acting, type Action, changedMeanwhile, citing } from './acting.ts';

interface Move {
  to: NodeStatus;
  by: Cause;
  says(acting: Acting): string;
  set?(acting: Acting): NodeChanges;
  /** Looks at what the table cannot see; throws where it must not be. */
  check?(acting: Acting): Promise<void>;
}

export const moveTo = ({ to, by, says, set, check }: Move): Action => ({
  predict(acting) {
    const { node, pool, services, at } = acting;
    const phase = nodeStatuses[to].deadline;
    const budget = phase && budgetOf(phase, pool, services.environment, node.requested_provision_seconds);
    return { status: to, deadline_at: budget ? secondsLater(at, budget.seconds) : null, says: says(acting) };
  },
  async act(acting) {
    const { tx, services, node, at } = acting;
    await check?.(acting);
    const move = {
      node_id: node.node_id,
      from: [node.status],
      to,
      by,
      ...citing(acting),
      ...(set && { set: set(acting) }),
    };
    const [outcome] = await transition(tx, [move], at, services.environment);
    if (!outcome?.moved) throw changedMeanwhile();
    return undefined;
  },
});
