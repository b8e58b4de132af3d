/** The actions on a machine: those that usually help as buttons, all of them in the menu. */
import type { Node } from '../../../../src/contract/node.ts';
import type { OfferedAction } from '../../../../src/lifecycle/actions/actions.ts';
import { ActionsMenu } from '../actions/ActionsMenu.tsx';
import type { Action } from '../actions/action.ts';
import { OfferedButton } from '../actions/OfferedButton.tsx';
import { actionLabel, isWayOut } from '../actions/words.ts';
import { leadingOffers } from './next-steps.ts';
import { nodeAction } from './node-actions.ts';

interface Props {
  node: Node;
  offers: OfferedAction[];
  onAction: (action: Action) => void;
}

export const NodeWaysOut = ({ node, offers, onAction }: Props) =>
  leadingOffers(node, offers, isWayOut).map((offer, index) => (
    <OfferedButton
      key={offer.action}
      action={offer.action}
      label={actionLabel(offer.action)}
      secondary={index > 0}
      onClick={() => onAction(nodeAction(node, offer))}
    />
  ));

export const NodeMenu = ({ node, offers, onAction }: Props) => (
  <ActionsMenu offers={offers} onChoose={(offer) => onAction(nodeAction(node, offer))} />
);
