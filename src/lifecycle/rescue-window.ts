/** What a failed allocation may still hope for: once its window is over, it has no deadline that counts. Pure. */
import { type AllocationStatus, allocationStatuses } from './states.ts';

interface Standing {
  status: AllocationStatus;
  deadline_at: string | null;
}

/** One that is over has no deadline any more, or one that has just passed. */
export const isRescueOver = ({ status, deadline_at }: Standing, nowMs: number): boolean =>
  status === 'failed' && (deadline_at === null || Date.parse(deadline_at) <= nowMs);

export const allocationMeans = (standing: Standing, nowMs: number): string =>
  isRescueOver(standing, nowMs)
    ? 'Could not be served, and its rescue window is over; retry it or release it.'
    : allocationStatuses[standing.status].means;
