/**
 * `extend-deadline` for a node, and for an allocation that waits for a machine or is being
 * released.
 */
import { secondsLater } from '../../base/clock.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { AllocationStatus } from '../../lifecycle/model/states.ts';
import { listOpenOperations } from '../../store/operations/open-operations.ts';
import { lockAllocation } from '../../store/rows/allocations.ts';
import { markExtended } from '../../store/transitions/advance.ts';
import { extendSteps, moveAllocationDeadline, moveDeadlines } from '../../store/transitions/deadlines.ts';
import { type Action, type AllocationActionContext, changedError, type Prediction } from './action.ts';

const requireSeconds = (seconds: number | undefined): number => {
  if (seconds === undefined)
    throw new ApiProblem('invalid_request', {
      detail: 'Pass the number of `seconds` to extend the deadline by.',
      errors: [{ path: '/body/seconds', message: 'is required' }],
    });
  return seconds;
};

/** Adds the seconds to the deadline, or to now if the deadline has passed. */
export const extendedDeadline = (deadline_at: Date | null, seconds: number | undefined, at: Date): Date =>
  secondsLater(deadline_at && deadline_at > at ? deadline_at : at, requireSeconds(seconds));

export const extendDeadline: Action = {
  predict({ node, request, at }) {
    const deadline_at = extendedDeadline(node.deadline_at, request.seconds, at);
    return { status: node.status, deadline_at, says: `its deadline moves to ${deadline_at.toISOString()}` };
  },
  async act({ tx, node, request, caller, at }, { deadline_at }) {
    if (!deadline_at) return undefined;
    const reason = `extended by ${request.seconds} s: ${request.reason}`;
    if (node.node_instance_id) await markExtended(tx, node.node_instance_id, at);
    await moveDeadlines(tx, [{ node, deadline_at, reason }], { layer: 'operator', actor: caller.actor }, at);
    return undefined;
  },
};

export const predictExtension = ({
  allocation,
  request,
  at,
}: AllocationActionContext): Prediction<AllocationStatus> => {
  const deadline_at = extendedDeadline(allocation.deadline_at, request.seconds, at);
  return { status: allocation.status, deadline_at, says: `its deadline moves to ${deadline_at.toISOString()}` };
};

export async function extendAllocation(
  { tx, allocation, request, caller, at }: AllocationActionContext,
  { deadline_at }: Prediction,
): Promise<undefined> {
  // Operations lock their own row before the allocation; the reverse order could deadlock.
  const openOperations = await listOpenOperations(tx, allocation.allocation_id, 'for no key update');
  const locked = await lockAllocation(tx, allocation.allocation_id);
  if (!deadline_at || !locked || locked.status !== allocation.status)
    throw changedError('The allocation changed in the meantime. Check it and try again.');
  // The current step has its own time limit, which would end the wait before the new deadline.
  for (const { workflow_id } of openOperations) await extendSteps(tx, workflow_id, request.seconds ?? 0);
  const reason = `extended by ${request.seconds} s: ${request.reason}`;
  await moveAllocationDeadline(tx, locked, { deadline_at, reason }, { layer: 'operator', actor: caller.actor }, at);
}
