/**
 * The rescue window of a failed allocation: until its deadline a late machine can still serve it.
 * model/registration-effect.ts decides what a late registration does.
 */
import { type AllocationStatus, allocationStatuses } from '../model/states.ts';

/** Rules that decide only because a deadline passed. The cause may become known later. */
export const timeOnlyRules: readonly string[] = ['provision-deadline', 'start-deadline', 'offline-deadline'];

interface AllocationFacts {
  status: AllocationStatus;
  deadline_at: string | null;
  verdict: { certain?: boolean | undefined } | null;
}

/**
 * Whether a failed allocation can no longer be rescued, because it has no deadline or its deadline
 * has passed.
 */
export const isRescueOver = ({ status, deadline_at }: Omit<AllocationFacts, 'verdict'>, nowMs: number): boolean =>
  status === 'failed' && (deadline_at === null || Date.parse(deadline_at) <= nowMs);

/** Whether the machine is known to have ended, so that no rescue can come within the window. */
export const hasEnded = ({ status, verdict }: Pick<AllocationFacts, 'status' | 'verdict'>): boolean =>
  status === 'failed' && verdict?.certain === true;

export function describeAllocationStatus(allocation: AllocationFacts, nowMs: number): string {
  if (isRescueOver(allocation, nowMs))
    return 'Has no working machine, and its rescue window is over; retry or release it.';
  if (hasEnded(allocation)) return 'Its machine failed for good, so waiting does not help; retry or release it.';
  return allocationStatuses[allocation.status].means;
}
