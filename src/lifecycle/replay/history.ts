/** What is on record of a pool, and a policy to hold it against: what a replay reads. Pure. */
import type { SampleOutcome, SamplePhase } from '../boots/boot-samples.ts';
import type { BrakePolicy, BrakeSettings } from '../brake/brake.ts';
import type { BudgetSettings, BudgetSource, HeartbeatSettings } from '../deadlines/budgets.ts';
import type { NodeStatus } from '../model/states.ts';

/** The part of a pool's document that its rules decide by, with what the server adds to it. */
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

/** What moved the deadline of a phase while it lasted: advance, by the rules; or somebody's word, by so many seconds. */
export type DeadlineEvent =
  | { at: Date; what: 'advance' }
  | { at: Date; what: 'moved'; seconds: number; by_person: boolean };

export interface RecordedBoot extends Machine {
  /** Of the pool, that it was made from. */
  generation: number;
  phase: SamplePhase;
  started_at: Date;
  /** It arrived, or nothing more is known of it. */
  ended_at: Date;
  outcome: SampleOutcome | 'running';
  budget_seconds: number;
  budget_source: BudgetSource;
  /** What its allocation asked for. */
  requested_seconds: number | null;
  /** In the order of time. */
  events: DeadlineEvent[];
  /** When a rule gave it up, or would have in a pool that is only observed. */
  given_up: {
    at: Date;
    reason: string;
    deadline_at: Date | null;
    last_seen_at: Date | null;
    stale_seconds: number | null;
  } | null;
  /** A rule made it ready, and not its own word. */
  ready_by_rule: boolean;
  /** Until then it was seen not to come; after that its machine was destroyed or replaced, or has not been waited for yet. */
  watched_until: Date;
}

/** A machine that was called offline, by whom, and how that ended. */
export interface RecordedAbsence extends Machine {
  generation: number;
  at: Date;
  by: string;
  reason: string;
  /** Where the silence was judged. */
  stale_seconds: number | null;
  budget_seconds: number | null;
  /** By how much its deadline was moved meanwhile. */
  moved_seconds: number;
  /** It was seen to have ended, so its deadline was not waited for. */
  ended: boolean;
  back_at: Date | null;
  given_up: { at: Date; reason: string } | null;
  /** Back after it had been given up. */
  rescued_at: Date | null;
  /** Somebody or something else ended the absence. */
  over_at: Date | null;
}

/** Every change of status, for who stood where at which moment; and verdicts that were held back. */
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
  /** Oldest first; the policy in force at any time is among them. */
  generations: Generation[];
  boots: RecordedBoot[];
  absences: RecordedAbsence[];
  /** Oldest first. */
  changes: RecordedChange[];
  held: RecordedHeld[];
  /** Machines of an observed pool that a rule told to be silent. */
  unenforced_silences: string[];
  /** How many stand where, at the end. */
  standing: Partial<Record<NodeStatus, number>>;
  brake: BrakeSettings;
  /** What was left out because there was too much of it, the oldest first. */
  cut: { boots: boolean; changes: boolean };
}
