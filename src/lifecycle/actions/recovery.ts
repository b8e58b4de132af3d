/**
 * Rules for bulk recoveries: which actions they support, when a target counts as recovered, and how
 * fast a recovery proceeds.
 */
import { type AllocationStatus, type NodeStatus, nodeStatuses } from '../model/states.ts';
import { type ActionSubject, nodeActions, whyNotOnNode } from './actions.ts';

/** Statuses that a recovery can select. */
export const recoverableStatuses = ['release_failed', ...Object.keys(nodeStatuses)];

interface BulkAction<Status> {
  /** A description for people. */
  does: string;
  /** Statuses in which the action can start. */
  from: readonly Status[];
  /**
   * Statuses in which another operation already works on the target, so the recovery only waits.
   */
  under_way: readonly Status[];
  /** Statuses that count as recovered, whether this recovery or something else caused them. */
  recovered: readonly Status[];
  /** Statuses that count as failed if the target enters them after the action. */
  failed: readonly Status[];
  /** The action launches a machine, which a paused pool does not allow. */
  launches?: true;
}

const allocationBulkActions = {
  'retry-release': {
    does: 'retries failed releases',
    from: ['release_failed'],
    under_way: ['releasing'],
    recovered: ['released'],
    failed: ['release_failed'],
  },
} as const satisfies Record<string, BulkAction<AllocationStatus>>;

const nodeBulkActions = {
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

export type AllocationBulkAction = keyof typeof allocationBulkActions;
export type NodeBulkAction = keyof typeof nodeBulkActions;
export type BulkActionName = AllocationBulkAction | NodeBulkAction;

export const isAboutAllocations = (action: BulkActionName): action is AllocationBulkAction =>
  Object.hasOwn(allocationBulkActions, action);

const table: Record<BulkActionName, BulkAction<AllocationStatus | NodeStatus>> = {
  ...allocationBulkActions,
  ...nodeBulkActions,
};
export const bulkActionNames = Object.keys(table) as BulkActionName[];
export const isBulkAction = (action: string): action is BulkActionName => Object.hasOwn(table, action);
export const bulkAction = (action: BulkActionName): BulkAction<AllocationStatus | NodeStatus> => table[action];

/** Null if the pool was deleted. */
export type PoolFacts = { paused: boolean } | null;

/**
 * Why the action is not available for this machine; null if it is. The recovery skips a machine
 * with a reason, and does not count it as failed.
 */
export function whyNotInBulk(action: NodeBulkAction, subject: ActionSubject, pool: PoolFacts): string | null {
  const why_not = whyNotOnNode(action, subject);
  if (why_not !== null || !table[action].launches) return why_not;
  if (pool === null) return 'Its pool was deleted; retire it instead.';
  return pool.paused ? 'Its pool launches nothing while it is paused.' : null;
}

export const recoveryDefaults = { canary: 1, per_minute: 60, stop_after_failures: 3 } as const;

/**
 * The number of targets in progress at once. With more, the targets would compete with each other,
 * and all of them would have started before the first failure is known.
 */
export const maxInProgress = 20;

export interface TargetFacts {
  status: AllocationStatus | NodeStatus;
  status_since: Date;
  /** Null if the recovery has not acted on the target yet. */
  acted_at: Date | null;
  /** The status of the operation that works on the target, or null. */
  operation_status: string | null;
}

/** The result of a target; undefined while it is in progress. */
export function judgeTarget(action: BulkActionName, facts: TargetFacts): 'recovered' | 'failed' | undefined {
  const { from, recovered, failed } = table[action];
  const hasChanged = facts.acted_at !== null && facts.status_since > facts.acted_at;
  // A status in which the action can start counts as recovered only if the target returned to it.
  if (recovered.includes(facts.status) && (hasChanged || !from.includes(facts.status))) return 'recovered';
  if (!facts.acted_at) return undefined;
  const hasFailed = hasChanged && failed.includes(facts.status);
  const hasOperationFailed = facts.operation_status === 'failed' || facts.operation_status === 'cancelled';
  return hasFailed || hasOperationFailed ? 'failed' : undefined;
}

export type RecoveryPhase = 'canary' | 'rest';

/** `waiting`, `acting` and `failed` count the targets of this phase; the rate covers all phases. */
export interface RecoveryFacts {
  phase: RecoveryPhase;
  per_minute: number;
  stop_after_failures: number;
  waiting: number;
  acting: number;
  failed: number;
  acted_last_minute: number;
  /** Null if the recovery has not acted on any target yet. */
  seconds_since_act: number | null;
}

export interface RecoveryMove {
  /** How many targets to act on now. */
  act: number;
  /** Whether too many targets failed, so that the recovery acts on no more. */
  stop: boolean;
  /** Whether the phase is complete. */
  over: boolean;
  /** When to check again. */
  wait_seconds: number;
}

/** One failed canary stops the recovery, because its cause most likely affects the others too. */
const canaryFailures = 1;

/** At most one second's worth of targets at once. A minute's worth at once would defeat the cap. */
const burstOf = ({ per_minute }: RecoveryFacts) => Math.max(1, Math.floor(per_minute / 60));

function computeRateRoom(facts: RecoveryFacts): number {
  const { per_minute, acted_last_minute, seconds_since_act } = facts;
  const burst = burstOf(facts);
  const accrued = seconds_since_act === null ? burst : Math.floor((seconds_since_act * per_minute) / 60);
  return Math.max(0, Math.min(burst, accrued, per_minute - acted_last_minute));
}

const minWaitSeconds = 0.25;
const maxWaitSeconds = 10;
const boundWait = (seconds: number) => Math.min(maxWaitSeconds, Math.max(minWaitSeconds, seconds));

export function nextRecoveryMove(facts: RecoveryFacts): RecoveryMove {
  const { phase, waiting, acting, failed, per_minute } = facts;
  const stop = failed >= (phase === 'canary' ? canaryFailures : facts.stop_after_failures);
  const act = stop ? 0 : Math.max(0, Math.min(waiting, maxInProgress - acting, computeRateRoom(facts)));
  const idleSeconds = act > 0 ? 0 : (facts.seconds_since_act ?? 0);
  const isRateLimited = !stop && waiting > act && acting + act < maxInProgress;
  const untilRateAllows = (Math.min(burstOf(facts), waiting - act) * 60) / per_minute - idleSeconds;
  return {
    act,
    stop,
    over: acting === 0 && (stop || waiting === 0),
    // A recovery that only waits for targets in progress polls less and less often.
    wait_seconds: boundWait(isRateLimited ? untilRateAllows : idleSeconds / 4),
  };
}
