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

const noLongerFits = () =>
  changedMeanwhile('The node has changed meanwhile; the verdict that was held back no longer fits.');

const heldOf = ({ node }: Acting): Held => {
  if (!node.held) throw new ApiProblem('action_illegal', 'No verdict is held.');
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
    const cited = {
      by,
      reason: `${held.rule}, held back since ${held.since}, applied by hand: ${request.reason}`,
      actor: caller.actor,
      data: { held },
    };
    const life = held.rule === 'liveness' ? await joinedRow(tx, node.node_id, wholeFleet) : undefined;
    if (life && isFresh({ ...life, probe_ok_at: null }, at))
      throw new ApiProblem('action_illegal', 'It beats again, so the verdict that was held back is no longer true.');
    if (held.to === 'cleaning') {
      const workflow_id = await retireIn(tx, services, node, cited as Parameters<typeof retireIn>[3], at);
      if (!workflow_id) throw noLongerFits();
      return workflow_id;
    }
    const move = { ...cited, node_id: node.node_id, from: [node.status], to: held.to as NodeStatus };
    const [outcome] = await transition(tx, [move], at, services.environment);
    if (!outcome?.moved) throw noLongerFits();
    return undefined;
  },
};
