/** The facts that an explanation is made from, and its result. */
import type { RepeatedFailure } from '../actions/order-offers.ts';
import type { BudgetSource } from '../deadlines/budgets.ts';
import type { RefusedBeats } from '../findings/refused-beats.ts';
import type { Prerequisites } from '../model/reports.ts';
import type { AllocationStatus, NodeStatus } from '../model/states.ts';
import type { Cause } from '../model/transitions.ts';

export interface ExplainedNode {
  status: NodeStatus;
  status_since: Date;
  deadline_at: Date | null;
  budget_seconds: number | null;
  budget_source: BudgetSource | null;
  /** `capacity` while the provider has no capacity; null otherwise. */
  waiting_for: string | null;
  prerequisites: Prerequisites;
  last_seen_at: Date | null;
  stale_seconds: number | null;
  /** `certain`: the machine is known to have ended. */
  verdict: { rule: string; certain?: boolean | undefined } | null;
  held: { rule: string; reason: string; held_until: string } | null;
  would_have: { rule: string } | null;
}

/** The allocation that holds the machine. */
export interface Holder {
  allocation_id: string;
  name: string | null;
  status: AllocationStatus;
  reason: string | null;
  /** How often its release has failed. */
  release_tries: number;
  /** When its release is retried automatically. */
  retry_at: Date | null;
}

export interface ExplainFacts {
  node: ExplainedNode;
  observe_only: boolean;
  /** Whether the machine is reused after its release. */
  reuse: boolean;
  /**
   * Whether the machine is supervised through its provider. Each inspection that shows the machine
   * then counts as a heartbeat.
   */
  agentless: boolean;
  /** Whether the teardown is part of a reimage. */
  anew: boolean;
  holder: Holder | null;
  /** Open residue of a forced release. */
  residue: readonly string[];
  /** When the last period ended in which no replica could receive heartbeats. */
  gap_end: Date | null;
  /** The event that the running operation on the machine waits for, if there is one. */
  operation: string | null;
  /** Set if the machine repeatedly failed to come up. */
  repeated: RepeatedFailure | null;
  /** Set if the machine's heartbeats arrive but are refused. */
  refused_beats: RefusedBeats | null;
}

export interface NextStep {
  if: string;
  leads_to: string;
  at: Date | null;
  /** The rule that decides, if one does. */
  by?: Cause;
}

/** Builds a step that a rule takes. `leads_to` names the rule for people; code reads `by`. */
export const byRule = (outcome: string, rule: Cause, remark = ''): Pick<NextStep, 'leads_to' | 'by'> => ({
  leads_to: `${outcome}, by ${rule}${remark}`,
  by: rule,
});

export interface Explanation {
  waiting_for: string | null;
  next: NextStep[];
}
