/** What a failed allocation may still hope for: once its window is over, it has no deadline that counts. Pure. */
import { type AllocationStatus, allocationStatuses } from '../model/states.ts';

/** These know that nothing came in time, and not why: what ended the machine may be found out later. */
export const decidedByTime: readonly string[] = ['provision-deadline', 'start-deadline', 'offline-deadline'];

interface Standing {
  status: AllocationStatus;
  deadline_at: string | null;
  verdict: { certain?: boolean | undefined } | null;
}

/** One that is over has no deadline any more, or one that has just passed. */
export const isRescueOver = ({ status, deadline_at }: Omit<Standing, 'verdict'>, nowMs: number): boolean =>
  status === 'failed' && (deadline_at === null || Date.parse(deadline_at) <= nowMs);

/** Its machine was seen to have ended: the window still runs, and nobody will come through it. */
export const hasEnded = ({ status, verdict }: Pick<Standing, 'status' | 'verdict'>): boolean =>
  status === 'failed' && verdict?.certain === true;

export function allocationMeans(standing: Standing, nowMs: number): string {
  if (isRescueOver(standing, nowMs))
    return 'Could not be served, and its rescue window is over; retry it or release it.';
  if (hasEnded(standing))
    return 'Could not be served: its machine could not be brought up or has ended, and waiting does not bring it back; retry it or release it.';
  return allocationStatuses[standing.status].means;
}
