/** The actions on an allocation. */
import type { Allocation } from '../../../../src/contract/allocation.ts';
import {
  type AllocationActionName,
  allocationActionNames,
  allocationActions,
  type OfferedAllocationAction,
} from '../../../../src/lifecycle/actions/allocation-actions.ts';
import type { AllocationStatus } from '../../../../src/lifecycle/model/states.ts';
import { actOnAllocation, release, retryAllocation } from '../../api/queries/allocations.ts';
import { type Action, awaitWithNotice } from '../actions/action.ts';
import { offeredAction } from '../actions/offered-action.ts';
import { allocationActionLabel, isWayOut } from '../actions/words.ts';

/** The fields of an allocation that an action needs. */
export type AllocationName = Pick<Allocation, 'allocation_id' | 'status' | 'name'>;

export const nameOf = (allocation: AllocationName): string => allocation.name ?? allocation.allocation_id;

type SendRequest = (id: string, reason: string | undefined, idempotency_key: string) => Promise<unknown>;

/** Actions with a route of their own. These routes need no reason. */
const actionsWithOwnRoute: Partial<Record<AllocationActionName, { send: SendRequest; notice: string }>> = {
  release: { send: release, notice: 'Releasing' },
  retry: { send: retryAllocation, notice: 'Retrying' },
};

export function allocationAction(allocation: AllocationName, offer: OfferedAllocationAction): Action {
  const { allocation_id, status } = allocation;
  const name = nameOf(allocation);
  const label = allocationActionLabel(offer.action, status);
  const action = {
    ...offeredAction(offer, name, (body, key) => actOnAllocation(allocation_id, offer.action, body, key)),
    title: `${label} · ${name}`,
    button: label,
  };
  const ownRoute = actionsWithOwnRoute[offer.action];
  if (!ownRoute) return action;
  return {
    ...action,
    needsReason: false,
    run: ({ reason }, key) => awaitWithNotice(`${ownRoute.notice} ${name}`, ownRoute.send(allocation_id, reason, key)),
  };
}

/** Whether an action gets a button on the page while it is available. */
export const hasButton = (action: string): boolean => isWayOut(action) || action === 'release';

/** Assumes that the action is available; the prediction checks all conditions. */
export const offerOf = (action: AllocationActionName): OfferedAllocationAction => ({
  action,
  does: allocationActions[action].does,
  open: true,
  why_not: null,
});

/**
 * The actions with a button in a list. The status alone decides, because asking the server would
 * take a request per row.
 */
export const buttonsByStatus = (status: AllocationStatus): OfferedAllocationAction[] =>
  allocationActionNames
    .filter((action) => hasButton(action) && allocationActions[action].from.some((from) => from === status))
    .map(offerOf);
