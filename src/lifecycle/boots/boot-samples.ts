/**
 * Which status changes end a phase of a boot, and with which outcome. Budgets are learned from
 * these samples.
 */
import type { NodeStatus } from '../model/states.ts';
import type { Cause } from '../model/transitions.ts';

export type SamplePhase = 'provision' | 'start';

/**
 * - completed: the machine arrived in time
 * - late: the machine arrived after its deadline; its full time counts
 * - timed_out: the machine failed at its deadline, so its time is only a lower bound
 * - cancelled: something else ended the phase, so its time is only a lower bound
 */
export type SampleOutcome = 'completed' | 'late' | 'timed_out' | 'cancelled';

export interface SampleEnd {
  phase: SamplePhase;
  outcome: SampleOutcome;
}

const phases: Partial<Record<NodeStatus | 'new', SamplePhase>> = { provisioning: 'provision', starting: 'start' };
const arrivals: Record<SamplePhase, NodeStatus> = { provision: 'starting', start: 'ready' };
const deadlines: readonly Cause[] = ['provision-deadline', 'start-deadline'];

/**
 * The sample of a status change; undefined if the change ends no phase. `registered`: the instance
 * had registered before the change.
 */
export function sampleOf(
  from: NodeStatus | 'new',
  to: NodeStatus,
  by: Cause,
  registered: boolean,
): SampleEnd | undefined {
  // An instance that had already registered failed during start-up. Its start-up continues now and
  // leaves a sample when it ends.
  if (by === 'late-registration') return registered ? undefined : { phase: 'provision', outcome: 'late' };
  const phase = phases[from];
  if (!phase) return undefined;
  if (arrivals[phase] === to) return { phase, outcome: 'completed' };
  return { phase, outcome: deadlines.includes(by) ? 'timed_out' : 'cancelled' };
}
