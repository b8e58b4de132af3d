/** What advance does to a deadline: the clock of a boot that moves is not the clock of one that stands still. Pure. */

const silenceShare = 0.25;
const silenceFloorSeconds = 60;
const ceilingFactor = 2;

/** How long a progress-aware boot that has begun to speak may be silent. The floor applies to the computed default only. */
export const silenceSeconds = (budget_seconds: number, configured?: number): number =>
  configured ?? Math.max(silenceFloorSeconds, budget_seconds * silenceShare);

export interface AdvancingPhase {
  status: 'provisioning' | 'starting';
  /** When the phase's clock started. */
  clock_from: Date;
  budget_seconds: number;
  deadline_at: Date;
  progress_aware: boolean;
  silence_seconds?: number | undefined;
}

/**
 * The deadline after an advance, or undefined when it stays. Provisioning is moved only where the pool asked for it; then a
 * boot that falls silent fails sooner than its budget, and one that advances is spared beyond it, up to a hard ceiling.
 * Start-up is postponed by advance everywhere, since it cannot be over while stages still come. It never ends sooner: its
 * deadline makes a machine that beats ready, and that must not happen before start-up had its time.
 */
export function deadlineAfterAdvance(phase: AdvancingPhase, now: Date): Date | undefined {
  const ceiling = phase.clock_from.getTime() + ceilingFactor * phase.budget_seconds * 1000;
  // Beyond the ceiling the deadline it has is the last one; a new one would lie in the past.
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
