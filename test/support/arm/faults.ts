/**
 * Faults that a test plans, either for the next matching requests or for every operation of a kind
 * until `clear`.
 */
import type { Refusal } from './refusal.ts';

export interface ArmFault {
  method?: string;
  /** Matched against the path without the query. Must ignore case, as ARM does for ids. */
  path?: RegExp;
  /** How many requests fail; 1 by default. */
  times?: number;
  /**
   * `cut_before` disconnects without any effect; `cut_after` disconnects after the effect; `hang`
   * accepts and never answers; `hang_after` takes effect and never answers.
   */
  effect: Refusal | 'cut_before' | 'cut_after' | 'hang' | 'hang_after';
}

export const paths = {
  token: /\/oauth2\/v2\.0\/token$/i,
  group: /\/resourcegroups\/[^/]+$/i,
  cluster: /\/managedclusters\/[^/]+$/i,
  abort: /\/managedclusters\/[^/]+\/abort$/i,
  latest_operation: /\/managedclusters\/[^/]+\/operations\/latest$/i,
  async_operation: /\/locations\/[^/]+\/operations\/[^/]+$/i,
  agent_pools: /\/managedclusters\/[^/]+\/agentpools$/i,
  role_assignment: /\/roleassignments\/[^/]+$/i,
} as const;

export interface ArmFaults {
  /**
   * Applies to the next matching requests. Of several planned faults that match, the one planned
   * first is used up first.
   */
  next(fault: ArmFault): void;
  /** Removes all faults. */
  clear(): void;
  /** The error with which the creation or update of a cluster fails. */
  cluster_fails: Refusal | null;
  /** Agent pools that end `Failed`, with their errors. One failed pool makes the cluster fail. */
  pools_fail: Map<string, Refusal>;
  /** The error with which every role assignment is refused. */
  role_assignments: Refusal | null;
  /** Whether `operations/latest` exists, and whether it reports a percentage. */
  operations_latest: 'percent' | 'no_percent' | 'missing';
  /** The percentage to report, instead of one derived from the elapsed time. */
  percent: number | null;
}

export interface PlannedFaults extends ArmFaults {
  /** Returns the effect of the first planned fault that matches, and counts one use of it. */
  takeEffect(method: string, path: string): ArmFault['effect'] | undefined;
}

const noFaults = () => ({
  cluster_fails: null,
  pools_fail: new Map<string, Refusal>(),
  role_assignments: null,
  operations_latest: 'percent' as const,
  percent: null,
});

export function plannedFaults(): PlannedFaults {
  let planned: (ArmFault & { times: number })[] = [];
  const faults: PlannedFaults = {
    ...noFaults(),
    next(fault) {
      planned.push({ ...fault, times: fault.times ?? 1 });
    },
    clear() {
      planned = [];
      Object.assign(faults, noFaults());
    },
    takeEffect(method, path) {
      const match = planned.find(
        (fault) => fault.times > 0 && (fault.method ?? method) === method && (fault.path?.test(path) ?? true),
      );
      if (!match) return undefined;
      match.times -= 1;
      return match.effect;
    },
  };
  return faults;
}
