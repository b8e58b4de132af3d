/** `extend-deadline` of an allocation that waits by its own deadline: for a machine, or for the end of its release. */
import type { AllocationStatus } from '../../lifecycle/model/states.ts';
import { openOperationsOf } from '../../store/operations/open-operations.ts';
import { lockAllocation } from '../../store/rows/allocations.ts';
import { extendSteps, moveAllocationDeadline } from '../../store/transitions/deadlines.ts';
import type { ActingOnAllocation } from './acting.ts';
import { changedMeanwhile, type Prediction } from './acting.ts';
import { extended } from './extend-deadline.ts';

export const predictExtension = ({ allocation, asked, at }: ActingOnAllocation): Prediction<AllocationStatus> => {
  const deadline_at = extended(allocation.deadline_at, asked.seconds, at);
  return { status: allocation.status, deadline_at, says: `it has until ${deadline_at.toISOString()}` };
};

export async function extendAllocation(
  { tx, allocation, asked, caller, at }: ActingOnAllocation,
  { deadline_at }: Prediction,
): Promise<undefined> {
  // An operation's own step locks the operation and then the allocation.
  const open = await openOperationsOf(tx, allocation.allocation_id, 'for no key update');
  const locked = await lockAllocation(tx, allocation.allocation_id);
  if (!deadline_at || !locked || locked.status !== allocation.status)
    throw changedMeanwhile('The allocation has changed meanwhile; look at it again.');
  // The step that it waits in has a limit of its own, which would end the wait before the new deadline.
  for (const { workflow_id } of open) await extendSteps(tx, workflow_id, asked.seconds ?? 0);
  const reason = `extended by ${asked.seconds} s: ${asked.reason}`;
  await moveAllocationDeadline(tx, locked, { deadline_at, reason }, { layer: 'operator', actor: caller.actor }, at);
}
