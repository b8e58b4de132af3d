/** What may be done about a machine itself. */
import type { Node } from '../../../../src/contract/node.ts';
import { type NodeActionName, nodeActions, type OfferedAction } from '../../../../src/lifecycle/actions/actions.ts';
import { actOnNode } from '../../api/queries/nodes.ts';
import type { Action } from '../actions/action.ts';
import { offeredAction } from '../actions/offered-action.ts';

export const nodeAction = ({ node_id, name }: Node, offer: OfferedAction): Action =>
  offeredAction(offer, name, (body, key) => actOnNode(node_id, offer.action, body, key));

/** Where the table opens it; whether more stands in its way, the look ahead says. */
export const nodeOffer = (action: NodeActionName): OfferedAction => ({
  action,
  does: nodeActions[action].does,
  open: true,
  why_not: null,
});
