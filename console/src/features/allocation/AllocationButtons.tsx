/** The actions on an allocation: those that usually help as buttons, all of them in the menu. */
import { useQuery } from '@tanstack/react-query';
import type { Allocation } from '../../../../src/contract/allocation.ts';
import { allocationActionsQuery } from '../../api/queries/allocations.ts';
import { mayOperate, useSession } from '../../api/session.ts';
import { ActionsMenu } from '../actions/ActionsMenu.tsx';
import type { Action } from '../actions/action.ts';
import { OfferedButton } from '../actions/OfferedButton.tsx';
import { allocationActionLabel } from '../actions/words.ts';
import { allocationAction, hasButton } from './allocation-actions.ts';

interface Props {
  allocation: Allocation;
  onAction: (action: Action) => void;
  /** Shows only these actions and no menu; the page of the machine offers the others. */
  only?: (action: string) => boolean;
}

export function AllocationButtons({ allocation, onAction, only }: Props) {
  const canAct = mayOperate(useSession());
  const { data: offers } = useQuery({ ...allocationActionsQuery(allocation.allocation_id), enabled: canAct });
  if (!canAct || !offers) return null;
  const labelOf = (action: string) => allocationActionLabel(action, allocation.status);
  return (
    <>
      {offers
        .filter(({ open, action }) => open && (only ?? hasButton)(action))
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
