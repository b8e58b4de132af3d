/** What an operator does about a node. The table of lifecycle/actions.ts says when; here stands how. Each is one transaction. */
import { now, secondsLater } from '../base/clock.ts';
import { ApiProblem } from '../contract/errors.ts';
import type { Held } from '../contract/node.ts';
import { type NodeActionName, offeredActions } from '../lifecycle/actions.ts';
import { isFresh } from '../lifecycle/liveness.ts';
import type { NodeStatus } from '../lifecycle/states.ts';
import type { Cause } from '../lifecycle/transitions.ts';
import { markExtended } from '../store/advance.ts';
import type { Transaction } from '../store/database.ts';
import { moveDeadlines } from '../store/deadlines.ts';
import { transition } from '../store/door.ts';
import { explainedNode, lockNode, type NodeRow } from '../store/nodes.ts';
import { retireIn } from './node-retire.ts';
import type { Asker } from './requests.ts';
import type { OperationServices } from './services.ts';

export interface AskedAction {
  reason: string;
  dry_run?: boolean | undefined;
  seconds?: number | undefined;
}

export interface Prediction {
  status: NodeStatus;
  deadline_at: Date | null;
  says: string;
}

interface Acting {
  tx: Transaction;
  services: OperationServices;
  node: NodeRow;
  asked: AskedAction;
  asker: Asker;
  at: Date;
}

interface Action {
  predict(acting: Acting): Prediction;
  act(acting: Acting, prediction: Prediction): Promise<void>;
}

const mustHave = <T>(value: T | null | undefined, what: string): T => {
  if (value === null || value === undefined)
    throw new ApiProblem('invalid_request', {
      detail: what,
      errors: [{ path: '/body/seconds', message: 'is required' }],
    });
  return value;
};

const extendDeadline: Action = {
  predict({ node, asked, at }) {
    const seconds = mustHave(asked.seconds, 'Say by how many `seconds` the deadline moves.');
    const from = node.deadline_at && node.deadline_at > at ? node.deadline_at : at;
    const deadline_at = secondsLater(from, seconds);
    return { status: node.status, deadline_at, says: `it has until ${deadline_at.toISOString()}` };
  },
  async act({ tx, node, asked, asker, at }, { deadline_at }) {
    if (!deadline_at) return;
    const reason = `extended by ${asked.seconds} s: ${asked.reason}`;
    if (node.node_instance_id) await markExtended(tx, node.node_instance_id, at);
    await moveDeadlines(tx, [{ node, deadline_at, reason }], { layer: 'operator', actor: asker.actor }, at);
  },
};

const heldOf = ({ node }: Acting): Held => {
  if (!node.held) throw new ApiProblem('action_illegal', 'No verdict is held back.');
  return node.held;
};

const changedMeanwhile = () =>
  new ApiProblem('action_illegal', 'The node has changed meanwhile; the verdict that was held back no longer fits.');

const applyHeldVerdict: Action = {
  predict(acting) {
    const held = heldOf(acting);
    return {
      status: held.to as NodeStatus,
      deadline_at: null,
      says: `${held.rule} takes effect: ${acting.node.status} → ${held.to}`,
    };
  },
  async act(acting) {
    const { tx, services, node, asked, asker, at } = acting;
    const held = heldOf(acting);
    const by = held.rule as Cause;
    const cited = {
      by,
      reason: `${held.rule}, held back since ${held.since}, applied by hand: ${asked.reason}`,
      actor: asker.actor,
      data: { held },
    };
    const life = held.rule === 'liveness' ? await explainedNode(tx, node.node_id) : undefined;
    if (life && isFresh({ ...life, probe_ok_at: null }, at))
      throw new ApiProblem('action_illegal', 'It beats again, so the verdict that was held back is no longer true.');
    if (held.to === 'cleaning') {
      if (!(await retireIn(tx, services, node, cited as Parameters<typeof retireIn>[3], at))) throw changedMeanwhile();
      return;
    }
    const move = { ...cited, node_id: node.node_id, from: [node.status], to: held.to as NodeStatus };
    const [outcome] = await transition(tx, [move], at, services.environment);
    if (!outcome?.moved) throw changedMeanwhile();
  },
};

const actions: Record<NodeActionName, Action> = {
  'extend-deadline': extendDeadline,
  'apply-held-verdict': applyHeldVerdict,
};

/** Refused unless the table opens the action in this state; with `dry_run` it only says what would come of it. */
export function actOnNode(
  services: OperationServices,
  id: string,
  action: NodeActionName,
  asked: AskedAction,
  asker: Asker,
): Promise<Prediction> {
  return services.db.transaction(async (tx) => {
    const at = now(services.clock);
    const node = await lockNode(tx, id);
    if (!node) throw new ApiProblem('node_not_found');
    const offered = offeredActions(node).find((each) => each.action === action);
    if (!offered?.open) throw new ApiProblem('action_illegal', offered?.why_not ?? 'It is not open.');
    const acting: Acting = { tx, services, node, asked, asker, at };
    const prediction = actions[action].predict(acting);
    if (!asked.dry_run) await actions[action].act(acting, prediction);
    return prediction;
  });
}
