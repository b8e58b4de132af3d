/** Moves the deadline of a boot when it makes progress. */

const silenceShare = 0.25;
const silenceFloorSeconds = 60;
const ceilingFactor = 2;

/**
 * How long a progress-aware boot may be silent after its first progress. The floor applies only to
 * the default, not to a configured value.
 */
export const silenceSeconds = (budget_seconds: number, configured?: number): number =>
  configured ?? Math.max(silenceFloorSeconds, budget_seconds * silenceShare);

export interface AdvancingPhase {
  status: 'provisioning' | 'starting';
  /** The start of the phase. */
  clock_from: Date;
  budget_seconds: number;
  deadline_at: Date;
  progress_aware: boolean;
  silence_seconds?: number | undefined;
}

/**
 * The new deadline after progress, or undefined if it does not change.
 *
 * While provisioning, progress moves the deadline only in progress-aware pools. A boot that falls
 * silent after progress may fail before its budget ends. A boot that keeps making progress may
 * exceed its budget, up to a hard ceiling.
 *
 * During start-up, progress moves the deadline in every pool, but only to a later time. At this
 * deadline a machine that sends heartbeats becomes ready, so an earlier one would be too soon.
 */
export function deadlineAfterAdvance(phase: AdvancingPhase, now: Date): Date | undefined {
  const ceiling = phase.clock_from.getTime() + ceilingFactor * phase.budget_seconds * 1000;
  // Past the ceiling the current deadline is final; a new one would be in the past.
  if (ceiling <= now.getTime()) return undefined;
  const deadlineIn = (seconds: number) => new Date(Math.min(ceiling, now.getTime() + seconds * 1000));
  if (phase.status === 'starting') {
    const laterDeadline = deadlineIn(phase.budget_seconds);
    return laterDeadline > phase.deadline_at ? laterDeadline : undefined;
  }
  if (!phase.progress_aware) return undefined;
  const newDeadline = deadlineIn(silenceSeconds(phase.budget_seconds, phase.silence_seconds));
  return newDeadline.getTime() === phase.deadline_at.getTime() ? undefined : newDeadline;
}
