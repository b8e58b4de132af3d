/** Which changes of a node end a phase of its boot, and how: the samples that budgets learn from. Pure. */
import type { NodeStatus } from '../model/states.ts';
import type { Cause } from '../model/transitions.ts';

export type SamplePhase = 'provision' | 'start';

/**
 * - completed: it arrived in time
 * - late: it arrived after it was given up; its true time counts
 * - timed_out: given up by its deadline, so it would have taken longer than this
 * - cancelled: ended by somebody or something else, so nothing is known beyond this
 */
export type SampleOutcome = 'completed' | 'late' | 'timed_out' | 'cancelled';

export interface SampleEnd {
  phase: SamplePhase;
  outcome: SampleOutcome;
}

const phases: Partial<Record<NodeStatus | 'new', SamplePhase>> = { provisioning: 'provision', starting: 'start' };
const arrivals: Record<SamplePhase, NodeStatus> = { provision: 'starting', start: 'ready' };
const deadlines: readonly Cause[] = ['provision-deadline', 'start-deadline'];

/** The sample that a change leaves, if it ends a phase. `registered`: the instance had registered before this change. */
export function sampleOf(
  from: NodeStatus | 'new',
  to: NodeStatus,
  by: Cause,
  registered: boolean,
): SampleEnd | undefined {
  // One that had registered was given up while it started; that phase goes on and ends by itself.
  if (by === 'late-registration') return registered ? undefined : { phase: 'provision', outcome: 'late' };
  const phase = phases[from];
  if (!phase) return undefined;
  if (arrivals[phase] === to) return { phase, outcome: 'completed' };
  return { phase, outcome: deadlines.includes(by) ? 'timed_out' : 'cancelled' };
}
