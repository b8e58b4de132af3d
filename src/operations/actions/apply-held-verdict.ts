/** `apply-held-verdict`: applies the verdict that the brake holds back for one node. */
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Held } from '../../contract/node.ts';
import { isFresh } from '../../lifecycle/deadlines/liveness.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { Cause } from '../../lifecycle/model/transitions.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { joinedRow } from '../../store/rows/nodes.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { retireIn } from '../release/node-retire.ts';
import { type Acting, type Action, changedMeanwhile, deadlineIn } from './action.ts';

const verdictOutdated = () => changedMeanwhile('The node has changed meanwhile. The held verdict no longer applies.');

const heldOf = ({ node }: Acting): Held => {
  if (!node.held) throw new ApiProblem('action_illegal', 'No verdict on this node is held.');
  return node.held;
};

export const applyHeldVerdict: Action = {
  predict(acting) {
    const held = heldOf(acting);
    return {
      status: held.to as NodeStatus,
      deadline_at: deadlineIn(held.to as NodeStatus, acting),
      says: `${held.rule} takes effect: ${acting.node.status} → ${held.to}`,
    };
  },
  async act(acting) {
    const { tx, services, node, request, caller, at } = acting;
    const held = heldOf(acting);
    const by = held.rule as Cause;
    const cause = {
      by,
      reason: `${held.rule}, held since ${held.since}, applied by hand: ${request.reason}`,
      actor: caller.actor,
      data: { held },
    };
    const current = held.rule === 'liveness' ? await joinedRow(tx, node.node_id, wholeFleet) : undefined;
    if (current && isFresh({ ...current, probe_ok_at: null }, at))
      throw new ApiProblem('action_illegal', 'The node sends heartbeats again. The held verdict no longer applies.');
    if (held.to === 'cleaning') {
      const workflow_id = await retireIn(tx, services, node, cause as Parameters<typeof retireIn>[3], at);
      if (!workflow_id) throw verdictOutdated();
      return workflow_id;
    }
    const move = { ...cause, node_id: node.node_id, from: [node.status], to: held.to as NodeStatus };
    const [outcome] = await transition(tx, [move], at, services.environment);
    if (!outcome?.moved) throw verdictOutdated();
    return undefined;
  },
};
