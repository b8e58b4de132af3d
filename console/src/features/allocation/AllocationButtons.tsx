/** The actions on an allocation: the ways out as buttons, everything in the menu. */
import { useQuery } from '@tanstack/react-query';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import { offersQuery } from '../../api/queries/allocations.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import { ActionsMenu } from '../actions/ActionsMenu.tsx';
import type { Action } from '../actions/action.ts';
import { OfferedButton } from '../actions/OfferedButton.tsx';
import { allocationActionLabel } from '../actions/words.ts';
import { allocationAction, isPlain } from './allocation-actions.ts';

interface Props {
  allocation: Allocation;
  onAction: (action: Action) => void;
  /** Shows only these, without the menu; the page of the machine offers the rest. */
  only?: (action: string) => boolean;
}

export function AllocationButtons({ allocation, onAction, only }: Props) {
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
