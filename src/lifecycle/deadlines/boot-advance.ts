/** Moves the deadline of a boot when it makes progress. */

const silenceShare = 0.25;
const silenceFloorSeconds = 60;
const ceilingFactor = 2;

/**
 * The longest silence of a progress-aware boot after its first report. The floor applies only to
 * the computed default.
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
 * Provisioning: only in progress-aware pools. A boot that falls silent fails before its budget
 * ends; one that makes progress may exceed its budget, up to a hard ceiling.
 *
 * Start-up: in every pool, and only to a later time. At this deadline a machine that sends
 * heartbeats becomes ready, so an earlier one would promote it too soon.
 */
export function deadlineAfterAdvance(phase: AdvancingPhase, now: Date): Date | undefined {
  const ceiling = phase.clock_from.getTime() + ceilingFactor * phase.budget_seconds * 1000;
  // Past the ceiling the current deadline is final; a new one would be in the past.
  if (ceiling <= now.getTime()) return undefined;
  const move = (seconds: number) => new Date(Math.min(ceiling, now.getTime() + seconds * 1000));
  if (phase.status === 'starting') {
    const postponed = move(phase.budget_seconds);
    return postponed > phase.deadline_at ? postponed : undefined;
  }
  if (!phase.progress_aware) return undefined;
  const renewed = move(silenceSeconds(phase.budget_seconds, phase.silence_seconds));
  return renewed.getTime() === phase.deadline_at.getTime() ? undefined : renewed;
}
