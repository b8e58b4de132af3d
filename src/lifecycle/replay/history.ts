/** The recorded history of a pool, and the policy to replay it under. */
import type { SampleOutcome, SamplePhase } from '../boots/boot-samples.ts';
import type { BrakePolicy, BrakeSettings } from '../brake/brake.ts';
import type { BudgetSettings, BudgetSource } from '../deadlines/budgets.ts';
import type { HeartbeatSettings } from '../deadlines/heartbeat-policy.ts';
import type { NodeStatus } from '../model/states.ts';

/** The fields of a pool document that rules use, with the server's defaults. */
export interface ReplayPolicy {
  mode: 'enforce' | 'observe';
  budgets: BudgetSettings & { policy?: 'fixed' | 'learned' };
  runtime_class?: BudgetSettings | undefined;
  server: BudgetSettings;
  heartbeat: HeartbeatSettings;
  brake: BrakePolicy;
  external: boolean;
}

interface Machine {
  node_id: string;
  node_instance_id: string;
}

/** Events that moved the deadline of a phase: progress, or an explicit extension. */
export type DeadlineEvent =
  | { at: Date; what: 'advance' }
  | { at: Date; what: 'moved'; seconds: number; by_person: boolean };

export interface RecordedBoot extends Machine {
  /** The pool generation that the machine was made from. */
  generation: number;
  phase: SamplePhase;
  started_at: Date;
  /** When the boot ended, or was last observed. */
  ended_at: Date;
  outcome: SampleOutcome | 'running';
  budget_seconds: number;
  budget_source: BudgetSource;
  /** The budget that the machine's allocation requested. */
  requested_seconds: number | null;
  /** In order of time. */
  events: DeadlineEvent[];
  /** The verdict that failed the boot, or would have in an observe-only pool. */
  given_up: {
    at: Date;
    reason: string;
    deadline_at: Date | null;
    last_seen_at: Date | null;
    stale_seconds: number | null;
  } | null;
  /** A rule made the machine ready, not its own report. */
  ready_by_rule: boolean;
  /**
   * Until this time the machine is known not to have arrived. Nothing is known about later times:
   * the machine was destroyed or replaced, or the history ends.
   */
  watched_until: Date;
}

/** A period in which a machine was offline. */
export interface RecordedAbsence extends Machine {
  generation: number;
  at: Date;
  by: string;
  reason: string;
  /** The stale time that applied. */
  stale_seconds: number | null;
  budget_seconds: number | null;
  /** By how much the offline deadline was extended during the absence. */
  moved_seconds: number;
  /** The machine was known to have ended, so its deadline did not apply. */
  ended: boolean;
  returned_at: Date | null;
  given_up: { at: Date; reason: string } | null;
  /** When the machine returned after it had failed. */
  rescued_at: Date | null;
  /** When something other than a return or a failure ended the absence, such as a drain. */
  interrupted_at: Date | null;
}

export interface RecordedChange extends Machine {
  at: Date;
  from: NodeStatus | 'new';
  to: NodeStatus;
  by: string;
  reason: string;
}

export interface RecordedHeld extends Machine {
  at: Date;
  rule: string;
  to: string;
  reason: string;
}

export interface Generation {
  generation: number;
  created_at: Date;
  policy: ReplayPolicy;
}

export interface History {
  pool: string;
  since: Date;
  until: Date;
  /** Oldest first. Contains the policy in force at any time of the history. */
  generations: Generation[];
  boots: RecordedBoot[];
  absences: RecordedAbsence[];
  /** Oldest first. Used to count the fleet at any time. */
  changes: RecordedChange[];
  held: RecordedHeld[];
  /**
   * Machines of an observe-only pool for which `liveness` recorded a verdict without enforcing it.
   */
  unenforced_silences: string[];
  /** Nodes by status at the end of the history. */
  final_counts: Partial<Record<NodeStatus, number>>;
  brake: BrakeSettings;
  /** Whether the oldest entries were left out because there were too many. */
  truncated: { boots: boolean; changes: boolean };
}
