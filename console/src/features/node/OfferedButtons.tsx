/** What may be done, at the top of a page: the open ways out as buttons, everything in the menu. Nothing for those who may only look. */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { Node } from '../../../../src/contract/node.ts';
import type { OfferedAction } from '../../../../src/lifecycle/actions/actions.ts';
import { offersQuery } from '../../api/queries/allocations.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import { ActionsMenu } from '../actions/ActionsMenu.tsx';
import type { Action } from '../actions/action.ts';
import { actionLabel, allocationActionLabel, isEnding, isWayOut } from '../actions/words.ts';
import { allocationAction, isPlain } from '../allocation/allocation-actions.ts';
import { leadingOffers } from './next-steps.ts';
import { nodeAction } from './node-actions.ts';

interface OfferedButtonProps {
  action: string;
  label: string;
  /** One leads; those beside it stand back. */
  beside?: boolean;
  onClick: () => void;
}

const OfferedButton = ({ action, label, beside, onClick }: OfferedButtonProps) => (
  <Button
    color={isEnding(action) ? 'red' : undefined}
    variant={isEnding(action) ? 'light' : beside ? 'default' : 'filled'}
    onClick={onClick}
  >
    {label}
  </Button>
);

interface NodeProps {
  node: Node;
  offers: OfferedAction[];
  onAction: (action: Action) => void;
}

export const NodeWaysOut = ({ node, offers, onAction }: NodeProps) =>
  leadingOffers(node, offers, isWayOut).map((offer, at) => (
    <OfferedButton
      key={offer.action}
      action={offer.action}
      label={actionLabel(offer.action)}
      beside={at > 0}
      onClick={() => onAction(nodeAction(node, offer))}
    />
  ));

export const NodeMenu = ({ node, offers, onAction }: NodeProps) => (
  <ActionsMenu offers={offers} onChoose={(offer) => onAction(nodeAction(node, offer))} />
);

interface AllocationProps {
  allocation: Allocation;
  onAction: (action: Action) => void;
  /** Only these, and no menu; where the machine's own page offers the rest. */
  only?: (action: string) => boolean;
}

export function AllocationButtons({ allocation, onAction, only }: AllocationProps) {
  const may = mayOperate(useSession());
  const { data: offers } = useQuery({ ...offersQuery(allocation.allocation_id), enabled: may });
  if (!may || !offers) return null;
  const labelOf = (action: string) => allocationActionLabel(action, allocation.status);
  return (
    <>
      {offers
        .filter(({ open, action }) => open && (only ?? isPlain)(action))
        .map((offer) => (
          <OfferedButton
            key={offer.action}
            action={offer.action}
            label={labelOf(offer.action)}
            onClick={() => onAction(allocationAction(allocation, offer))}
          />
        ))}
      {!only && (
        <ActionsMenu
          offers={offers}
          labelOf={labelOf}
          onChoose={(offer) => onAction(allocationAction(allocation, offer))}
        />
      )}
    </>
  );
}
