/** What an explanation is made from, and what it says. */
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
  /** `capacity` while the provider has none to give. */
  waiting_for: string | null;
  prerequisites: Prerequisites;
  last_seen_at: Date | null;
  stale_seconds: number | null;
  /** `certain`: the machine was seen to have ended. */
  verdict: { rule: string; certain?: boolean | undefined } | null;
  held: { rule: string; reason: string; held_until: string } | null;
  would_have: { rule: string } | null;
}

/** The allocation that has the machine. */
export interface Holder {
  allocation_id: string;
  name: string | null;
  status: AllocationStatus;
  reason: string | null;
  /** How often its release has failed. */
  release_tries: number;
  /** When its release is tried again by itself. */
  retry_at: Date | null;
}

export interface ExplainFacts {
  node: ExplainedNode;
  observe_only: boolean;
  /** The machine is handed on after its release. */
  reuse: boolean;
  /** No agent runs on it: its provider is looked at, and what that shows is its heartbeat. */
  agentless: boolean;
  /** It is taken down to be imaged anew. */
  anew: boolean;
  holder: Holder | null;
  /** What a forced release left behind and nobody has settled. */
  residue: readonly string[];
  /** What the operation that works on it is doing, if one is. */
  operation: string | null;
  /** Set where bringing it up has failed again and again. */
  repeated: RepeatedFailure | null;
  /** Set where its beats arrive and none has counted since. */
  refused_beats: RefusedBeats | null;
}

export interface NextStep {
  if: string;
  leads_to: string;
  at: Date | null;
  /** The rule that decides it; absent where no rule does. */
  by?: Cause;
}

/** A step that a rule takes. `leads_to` names the rule for people; code reads `by`. */
export const byRule = (outcome: string, rule: Cause, remark = ''): Pick<NextStep, 'leads_to' | 'by'> => ({
  leads_to: `${outcome}, by ${rule}${remark}`,
  by: rule,
});

export interface Explanation {
  waiting_for: string | null;
  next: NextStep[];
}
