/** The actions on a machine. */
import type { Node } from '../../../../src/contract/node.ts';
import { type NodeActionName, nodeActions, type OfferedAction } from '../../../../src/lifecycle/actions/actions.ts';
import { actOnNode } from '../../api/queries/nodes.ts';
import type { Action } from '../actions/action.ts';
import { offeredAction } from '../actions/offered-action.ts';

export const nodeAction = ({ node_id, name }: Node, offer: OfferedAction): Action =>
  offeredAction(offer, name, (body, key) => actOnNode(node_id, offer.action, body, key));

/** Assumes that the action is available; the prediction checks all conditions. */
export const nodeOffer = (action: NodeActionName): OfferedAction => ({
  action,
  does: nodeActions[action].does,
  open: true,
  why_not: null,
});
