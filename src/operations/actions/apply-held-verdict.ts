/** `apply-held-verdict`: applies the verdict that is held for one node, whatever holds it. */
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Held } from '../../contract/node.ts';
import { isFresh } from '../../lifecycle/deadlines/liveness.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { Cause } from '../../lifecycle/model/transitions.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { joinedRow } from '../../store/rows/nodes.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { retireIn } from '../release/node-retire.ts';
import { type Action, type ActionContext, changedError, deadlineAfterMove } from './action.ts';

const outdatedVerdictError = () =>
  changedError('The node changed in the meantime. The held verdict no longer applies.');

const requireHeldVerdict = ({ node }: ActionContext): Held => {
  if (!node.held) throw new ApiProblem('action_illegal', 'No verdict on this node is held.');
  return node.held;
};

export const applyHeldVerdict: Action = {
  predict(context) {
    const held = requireHeldVerdict(context);
    return {
      status: held.to as NodeStatus,
      deadline_at: deadlineAfterMove(held.to as NodeStatus, context),
      says: `${held.rule} takes effect: ${context.node.status} → ${held.to}`,
    };
  },
  async act(context) {
    const { tx, services, node, request, caller, at } = context;
    const held = requireHeldVerdict(context);
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
      if (!workflow_id) throw outdatedVerdictError();
      return workflow_id;
    }
    const move = { ...cause, node_id: node.node_id, from: [node.status], to: held.to as NodeStatus };
    const [outcome] = await transition(tx, [move], at, services.environment);
    if (!outcome?.moved) throw outdatedVerdictError();
    return undefined;
  },
};
