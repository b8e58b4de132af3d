/**
 * Faults that a test plans: for the next requests of a kind, or for everything of a kind from now
 * on.
 */
import type { Refusal } from './refusal.ts';

export interface ArmFault {
  method?: string;
  /** Matched against the path without the query; ids come in any case. */
  path?: RegExp;
  /** How many requests fail; 1 by default. */
  times?: number;
  /**
   * `cut_before` disconnects without any effect; `cut_after` disconnects after the effect; `hang`
   * accepts and never answers; `hang_after` takes effect and never answers.
   */
  does: Refusal | 'cut_before' | 'cut_after' | 'hang' | 'hang_after';
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
  /** Applies to the next matching requests, in the order of the calls. */
  next(fault: ArmFault): void;
  /** Removes all faults. */
  clear(): void;
  /** The error with which cluster creation fails. */
  cluster_fails: Refusal | null;
  /** Pools that end `Failed`, which makes the cluster fail too. */
  pools_fail: Map<string, Refusal>;
  /** Refuses every role assignment. */
  role_assignments: Refusal | null;
  /** Whether `operations/latest` exists, and whether it reports a percentage. */
  operations_latest: 'percent' | 'no_percent' | 'missing';
  /** Reported instead of the percentage derived from the elapsed time. */
  percent: number | null;
}

export interface PlannedFaults extends ArmFaults {
  meets(method: string, path: string): ArmFault['does'] | undefined;
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
    meets(method, path) {
      const met = planned.find(
        (fault) => fault.times > 0 && (fault.method ?? method) === method && (fault.path?.test(path) ?? true),
      );
      if (!met) return undefined;
      met.times -= 1;
      return met.does;
    },
  };
  return faults;
}
