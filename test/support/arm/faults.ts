/** What a story has go wrong: the next requests of a kind, or whatever of a kind from now on. */
import type { Refusal } from './refusal.ts';

export interface ArmFault {
  method?: string;
  /** Of the path, without the query; ids come in any case. */
  path?: RegExp;
  /** How many requests meet it; 1 unless told. */
  times?: number;
  /**
   * `cut_before`: the connection ends and nothing happened; `cut_after`: it happened, and nobody hears of it; `hang`: it is
   * accepted and never answered; `hang_after`: it happened, and the answer never comes.
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
  /** Meets the next requests that fit, in the order in which they were told. */
  next(fault: ArmFault): void;
  /** Nothing goes wrong any more. */
  clear(): void;
  /** How the creation of a cluster ends, where not well. */
  cluster_fails: Refusal | null;
  /** Pools that end `Failed`, and with them the cluster. */
  pools_fail: Map<string, Refusal>;
  /** What is said to every role assignment. */
  role_assignments: Refusal | null;
  /** Whether `operations/latest` is offered, and with a percent. */
  operations_latest: 'percent' | 'no_percent' | 'missing';
  /** The percent that it says instead of the time that went by. */
  percent: number | null;
}

export interface PlannedFaults extends ArmFaults {
  meets(method: string, path: string): ArmFault['does'] | undefined;
}

const usual = () => ({
  cluster_fails: null,
  pools_fail: new Map<string, Refusal>(),
  role_assignments: null,
  operations_latest: 'percent' as const,
  percent: null,
});

export function plannedFaults(): PlannedFaults {
  let planned: (ArmFault & { times: number })[] = [];
  const faults: PlannedFaults = {
    ...usual(),
    next(fault) {
      planned.push({ ...fault, times: fault.times ?? 1 });
    },
    clear() {
      planned = [];
      Object.assign(faults, usual());
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
