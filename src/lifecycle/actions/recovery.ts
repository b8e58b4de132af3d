/**
 * Bulk recovery: which actions it supports, when a target counts as recovered, and how fast it
 * proceeds.
 */
import { type AllocationStatus, type NodeStatus, nodeStatuses } from '../model/states.ts';
import { type ActionSubject, nodeActions, whyNotOnNode } from './actions.ts';

/** Statuses that a recovery can select. */
export const recoverableStatuses = ['release_failed', ...Object.keys(nodeStatuses)];

interface BulkAction<Status> {
  /** For people. */
  does: string;
  /** Statuses in which the action can start. */
  from: readonly Status[];
  /** Another operation already works on it: the recovery waits and does not act. */
  under_way: readonly Status[];
  /** Recovered, by this recovery or by something else. */
  recovered: readonly Status[];
  /** Failed, if entered after the action. */
  failed: readonly Status[];
  /** Launches a machine, which a paused pool does not allow. */
  launches?: true;
}

const onAllocations = {
  'retry-release': {
    does: 'retries failed releases',
    from: ['release_failed'],
    under_way: ['releasing'],
    recovered: ['released'],
    failed: ['release_failed'],
  },
} as const satisfies Record<string, BulkAction<AllocationStatus>>;

const onNodes = {
  retry: {
    does: 'retries failed machines with a new instance',
    from: nodeActions.retry.from,
    under_way: ['provisioning', 'starting'],
    recovered: ['ready', 'degraded'],
    failed: ['failed', 'cleaning', 'quarantined', 'retired'],
    launches: true,
  },
  reactivate: {
    does: 'returns quarantined machines to service',
    from: nodeActions.reactivate.from,
    under_way: ['starting'],
    recovered: ['ready', 'degraded'],
    failed: ['offline', 'failed', 'draining', 'cleaning', 'quarantined', 'retired'],
  },
  reimage: {
    does: 'reimages machines, each as a new instance',
    from: nodeActions.reimage.from,
    under_way: [],
    recovered: ['ready', 'degraded'],
    failed: ['failed', 'quarantined', 'retired'],
    launches: true,
  },
  quarantine: {
    does: 'quarantines machines',
    from: nodeActions.quarantine.from,
    under_way: [],
    recovered: ['quarantined'],
    failed: ['retired'],
  },
  retire: {
    does: 'retires machines',
    from: nodeActions.retire.from,
    under_way: ['cleaning'],
    recovered: ['retired'],
    failed: ['quarantined'],
  },
} as const satisfies Record<string, BulkAction<NodeStatus>>;

export type AllocationBulkAction = keyof typeof onAllocations;
export type NodeBulkAction = keyof typeof onNodes;
export type BulkActionName = AllocationBulkAction | NodeBulkAction;

export const isAboutAllocations = (action: BulkActionName): action is AllocationBulkAction =>
  Object.hasOwn(onAllocations, action);

const table: Record<BulkActionName, BulkAction<AllocationStatus | NodeStatus>> = { ...onAllocations, ...onNodes };
export const bulkActionNames = Object.keys(table) as BulkActionName[];
export const isBulkAction = (action: string): action is BulkActionName => Object.hasOwn(table, action);
export const bulkAction = (action: BulkActionName): BulkAction<AllocationStatus | NodeStatus> => table[action];

/** Null: the pool was deleted. */
export type PoolFacts = { paused: boolean } | null;

/**
 * Why the action is not available for this machine; null if it is. The recovery skips such machines
 * without counting them as failed.
 */
export function whyNotInBulk(action: NodeBulkAction, subject: ActionSubject, pool: PoolFacts): string | null {
  const why_not = whyNotOnNode(action, subject);
  if (why_not !== null || !table[action].launches) return why_not;
  if (pool === null) return 'Its pool was deleted; retire it instead.';
  return pool.paused ? 'Its pool launches nothing while it is paused.' : null;
}

export const recoveryDefaults = { canary: 1, per_minute: 60, stop_after_failures: 3 } as const;

/** More would wait for each other, and would all have started before the first failure is known. */
export const maxUnderWay = 20;

export interface TargetFacts {
  status: AllocationStatus | NodeStatus;
  status_since: Date;
  /** Null: not acted on yet. */
  acted_at: Date | null;
  /** The status of the operation that works on it, or null. */
  operation_status: string | null;
}

/** Undefined while it is in progress. */
export function judgeTarget(action: BulkActionName, facts: TargetFacts): 'recovered' | 'failed' | undefined {
  const { from, recovered, failed } = table[action];
  const hasChanged = facts.acted_at !== null && facts.status_since > facts.acted_at;
  // A status in which the action can start counts as recovered only if the target returned to it.
  if (recovered.includes(facts.status) && (hasChanged || !from.includes(facts.status))) return 'recovered';
  if (!facts.acted_at) return undefined;
  const fellBack = hasChanged && failed.includes(facts.status);
  const gaveUp = facts.operation_status === 'failed' || facts.operation_status === 'cancelled';
  return fellBack || gaveUp ? 'failed' : undefined;
}

export type RecoveryPhase = 'canary' | 'rest';

/** Counts of the targets of this phase. The rate applies to the whole recovery. */
export interface RecoveryFacts {
  phase: RecoveryPhase;
  per_minute: number;
  stop_after_failures: number;
  waiting: number;
  acting: number;
  failed: number;
  acted_last_minute: number;
  /** Null: nothing was acted on yet. */
  seconds_since_act: number | null;
}

export interface RecoveryMove {
  /** How many targets to act on now. */
  act: number;
  /** Too many failed; act on no more. */
  stop: boolean;
  /** The phase is complete. */
  over: boolean;
  /** When to check again. */
  wait_seconds: number;
}

/** One failed canary is enough: its cause most likely affects the others too. */
const canaryFailures = 1;

/** One second's worth at once, at least one. A whole minute's worth would defeat the cap. */
const burstOf = ({ per_minute }: RecoveryFacts) => Math.max(1, Math.floor(per_minute / 60));

function rateRoom(facts: RecoveryFacts): number {
  const { per_minute, acted_last_minute, seconds_since_act } = facts;
  const burst = burstOf(facts);
  const saved = seconds_since_act === null ? burst : Math.floor((seconds_since_act * per_minute) / 60);
  return Math.max(0, Math.min(burst, saved, per_minute - acted_last_minute));
}

const soonestSeconds = 0.25;
const latestSeconds = 10;
const bounded = (seconds: number) => Math.min(latestSeconds, Math.max(soonestSeconds, seconds));

export function nextRecoveryMove(facts: RecoveryFacts): RecoveryMove {
  const { phase, waiting, acting, failed, per_minute } = facts;
  const stop = failed >= (phase === 'canary' ? canaryFailures : facts.stop_after_failures);
  const act = stop ? 0 : Math.max(0, Math.min(waiting, maxUnderWay - acting, rateRoom(facts)));
  const since = act > 0 ? 0 : (facts.seconds_since_act ?? 0);
  const isPaced = !stop && waiting > act && acting + act < maxUnderWay;
  const untilRoom = (Math.min(burstOf(facts), waiting - act) * 60) / per_minute - since;
  return {
    act,
    stop,
    over: acting === 0 && (stop || waiting === 0),
    // While it only waits for targets in progress, it polls less and less often.
    wait_seconds: bounded(isPaced ? untilRoom : since / 4),
  };
}
