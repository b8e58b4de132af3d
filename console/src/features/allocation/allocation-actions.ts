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
import { type Action, thenNotify } from '../actions/action.ts';
import { offeredAction } from '../actions/offered-action.ts';
import { allocationActionLabel, isWayOut } from '../actions/words.ts';

/** The fields that an action needs. */
export type ActedOn = Pick<Allocation, 'allocation_id' | 'status' | 'name'>;

export const nameOf = (allocation: ActedOn): string => allocation.name ?? allocation.allocation_id;

type WithoutReason = (id: string, reason: string | undefined, idempotency_key: string) => Promise<unknown>;

/** Everyday actions have a route of their own and need no reason. */
const everyday: Partial<Record<AllocationActionName, { send: WithoutReason; says: string }>> = {
  release: { send: release, says: 'Releasing' },
  retry: { send: retryAllocation, says: 'Trying again:' },
};

export function allocationAction(allocation: ActedOn, offer: OfferedAllocationAction): Action {
  const { allocation_id, status } = allocation;
  const name = nameOf(allocation);
  const label = allocationActionLabel(offer.action, status);
  const action = {
    ...offeredAction(offer, name, (body, key) => actOnAllocation(allocation_id, offer.action, body, key)),
    title: `${label} · ${name}`,
    button: label,
  };
  const plain = everyday[offer.action];
  if (!plain) return action;
  return {
    ...action,
    needsReason: false,
    run: ({ reason }, key) => thenNotify(`${plain.says} ${name}`, plain.send(allocation_id, reason, key)),
  };
}

/** The actions that get a button on the page while they are open. */
export const isPlain = (action: string): boolean => isWayOut(action) || action === 'release';

/** Open by the status alone; the prediction checks the rest. */
export const offerOf = (action: AllocationActionName): OfferedAllocationAction => ({
  action,
  does: allocationActions[action].does,
  open: true,
  why_not: null,
});

/**
 * For lists: decides by the status alone, because asking the server would take a request per row.
 */
export const plainByStatus = (status: AllocationStatus): OfferedAllocationAction[] =>
  allocationActionNames
    .filter((action) => isPlain(action) && allocationActions[action].from.some((from) => from === status))
    .map(offerOf);
