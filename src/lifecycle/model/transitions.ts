/**
 * The transition tables. store/transitions refuses every change that is not listed here. The model
 * checker and the diagrams in the docs use the same tables; explanations and the console use the
 * texts of `causes`.
 */
import { type AllocationStatus, liveNodeStatuses, type NodeStatus, nodeStatuses } from './states.ts';

/**
 * The origin of a change:
 * - rule: a sweep or store/transitions decides; counts as an automatic exit
 * - operation: a step of a durable operation; also automatic, because operations always end
 * - claim: the node reported it; a report may never come, so it guarantees no exit
 * - operator: a person or a tenant requests it
 */
export type Trigger = 'rule' | 'operation' | 'claim' | 'operator';

export const causes = {
  'node-provision': { trigger: 'operation', says: 'a new machine is launched' },
  'node-create': { trigger: 'operator', says: 'an operator expects this machine' },
  join: { trigger: 'claim', says: 'the machine joined with a join token' },
  registration: { trigger: 'claim', says: 'its agent registered' },
  ensured: { trigger: 'operation', says: 'the provider finished; no agent is expected' },
  'provision-deadline': { trigger: 'rule', says: 'it did not register in time' },
  'provision-error': { trigger: 'operation', says: 'its launch failed with an error' },
  'claim-ready': { trigger: 'claim', says: 'the node reported ready' },
  'stuck-starting': { trigger: 'rule', says: 'it sends heartbeats and its start-up time is over' },
  'probe-promotes': { trigger: 'rule', says: 'it answered a probe' },
  'upstream-ready': { trigger: 'operation', says: 'the provider reports it ready' },
  'start-deadline': { trigger: 'rule', says: 'it registered and did not become ready in time' },
  'prerequisite-missing': { trigger: 'rule', says: 'a prerequisite of the pool is missing' },
  'late-registration': { trigger: 'claim', says: 'it returned within its rescue window' },
  retry: { trigger: 'operator', says: 'a retry with a new instance was requested' },
  'rescue-over': { trigger: 'rule', says: 'its rescue window ended' },
  degraded: { trigger: 'rule', says: 'its reported errors crossed the threshold' },
  liveness: { trigger: 'rule', says: 'it has been silent too long' },
  goodbye: { trigger: 'claim', says: 'the node said goodbye' },
  'heartbeat-returned': { trigger: 'claim', says: 'its heartbeats resumed' },
  'offline-deadline': { trigger: 'rule', says: 'it did not return by its deadline, or is known to have ended' },
  drain: { trigger: 'operator', says: 'an operator drains it' },
  undrain: { trigger: 'operator', says: 'an operator ended the drain' },
  drained: { trigger: 'operation', says: 'it is empty' },
  'drain-deadline': { trigger: 'rule', says: 'the drain took too long' },
  release: { trigger: 'operator', says: 'its allocation is released' },
  reimage: { trigger: 'operator', says: 'it is reimaged' },
  retire: { trigger: 'operator', says: 'it is being retired' },
  proof: { trigger: 'operation', says: 'the proof is complete' },
  'clean-error': { trigger: 'operation', says: 'its teardown failed and no allocation owns it' },
  'clean-deadline': { trigger: 'rule', says: 'its cleanup took too long and no allocation owns it' },
  'force-release': { trigger: 'operator', says: 'an operator forced the release' },
  quarantine: { trigger: 'operator', says: 'an operator quarantined it' },
  drift: { trigger: 'rule', says: 'our record and the provider disagree' },
  reactivate: { trigger: 'operator', says: 'an operator reactivated it' },
  're-enroll': { trigger: 'operator', says: 'it enrols again' },

  'allocation-create': { trigger: 'operator', says: 'a tenant requested a machine' },
  'node-assigned': { trigger: 'operation', says: 'a machine was assigned to it' },
  'queue-deadline': { trigger: 'rule', says: 'no machine was available in time' },
  'node-ready': { trigger: 'rule', says: 'its node is ready' },
  'node-failed': { trigger: 'rule', says: 'its node failed' },
  rescue: { trigger: 'rule', says: 'its node returned within the rescue window' },
  'node-lost': { trigger: 'rule', says: 'its node is gone' },
  'release-deadline': { trigger: 'rule', says: 'all tries failed, or it took too long' },
  'release-retry': { trigger: 'rule', says: 'the release is retried' },
} as const satisfies Record<string, { trigger: Trigger; says: string }>;

export type Cause = keyof typeof causes;

/** Describes a cause for people; undefined for an unknown name. */
export const describeCause = (name: string): string | undefined =>
  Object.hasOwn(causes, name) ? causes[name as Cause].says : undefined;

/**
 * A change with one of these causes is a verdict: the row keeps the cause as `verdict.rule` until
 * the next change.
 */
const verdicts: ReadonlySet<Cause> = new Set<Cause>([
  'provision-deadline',
  'provision-error',
  'late-registration',
  'rescue-over',
  'stuck-starting',
  'start-deadline',
  'prerequisite-missing',
  'probe-promotes',
  'liveness',
  'goodbye',
  'offline-deadline',
  'drain-deadline',
  'queue-deadline',
  'clean-error',
  'clean-deadline',
  'degraded',
  'drift',
  'node-failed',
  'node-lost',
  'release-deadline',
  'release-retry',
]);

export const isVerdict = (cause: Cause): boolean => verdicts.has(cause);

/** Whether a change leaves a verdict. A parked node always needs one, to say why it is parked. */
export const leavesVerdict = (cause: Cause, to: NodeStatus): boolean =>
  isVerdict(cause) || nodeStatuses[to].class === 'parked';

/** In these statuses a person or a system must act, so the verdict names an owner. */
const statusesWithOwner: ReadonlySet<NodeStatus> = new Set<NodeStatus>([
  'degraded',
  'offline',
  'failed',
  'quarantined',
]);

/**
 * Overrides of the default owner, for changes that name no owner. By default the operator owns
 * changes that an operator triggered, and the node owns all others.
 */
const ownersByCause: Partial<Record<Cause, string>> = {
  drained: 'operator',
  'drain-deadline': 'operator',
  'clean-deadline': 'provider',
  drift: 'provider',
};

export const ownerOf = (cause: Cause, to: NodeStatus, named: unknown): string | null => {
  if (!statusesWithOwner.has(to)) return null;
  if (typeof named === 'string') return named;
  return ownersByCause[cause] ?? (causes[cause].trigger === 'operator' ? 'operator' : 'node');
};

export interface Edge<Status extends string> {
  from: Status | 'new';
  to: Status;
  /** In order of precedence. */
  by: readonly Cause[];
}

const liveStatusesExcept = (status: NodeStatus) => liveNodeStatuses.filter((each) => each !== status);
const edgesFrom = <S extends string>(from: readonly (S | 'new')[], to: S, ...by: Cause[]): Edge<S>[] =>
  from.map((each) => ({ from: each, to, by }));

export const nodeEdges: readonly Edge<NodeStatus>[] = [
  ...edgesFrom<NodeStatus>(['new'], 'provisioning', 'node-provision', 'node-create', 'join'),
  ...edgesFrom<NodeStatus>(['provisioning'], 'starting', 'registration', 'ensured'),
  ...edgesFrom<NodeStatus>(['provisioning'], 'failed', 'provision-deadline', 'provision-error'),
  ...edgesFrom<NodeStatus>(['starting'], 'ready', 'claim-ready', 'stuck-starting', 'probe-promotes', 'upstream-ready'),
  ...edgesFrom<NodeStatus>(['starting'], 'failed', 'start-deadline', 'prerequisite-missing'),
  ...edgesFrom<NodeStatus>(['failed'], 'starting', 'late-registration'),
  ...edgesFrom<NodeStatus>(['failed'], 'provisioning', 'retry', 're-enroll'),
  ...edgesFrom<NodeStatus>(['ready'], 'degraded', 'degraded', 'liveness'),
  ...edgesFrom<NodeStatus>(['degraded'], 'ready', 'degraded', 'heartbeat-returned'),
  ...edgesFrom<NodeStatus>(['ready', 'degraded'], 'offline', 'liveness', 'goodbye'),
  ...edgesFrom<NodeStatus>(['offline'], 'ready', 'heartbeat-returned'),
  ...edgesFrom<NodeStatus>(['offline'], 'degraded', 'heartbeat-returned'),
  ...edgesFrom<NodeStatus>(['offline'], 'failed', 'offline-deadline'),
  ...edgesFrom<NodeStatus>(['offline'], 'provisioning', 're-enroll'),
  ...edgesFrom<NodeStatus>(['ready', 'degraded', 'offline'], 'draining', 'drain'),
  ...edgesFrom<NodeStatus>(['draining'], 'ready', 'undrain'),
  ...edgesFrom<NodeStatus>(['draining'], 'quarantined', 'drained', 'drain-deadline', 'quarantine', 'drift'),
  ...edgesFrom<NodeStatus>(['draining'], 'cleaning', 'drained', 'drain-deadline', 'release', 'reimage', 'retire'),
  ...edgesFrom<NodeStatus>(['failed'], 'cleaning', 'rescue-over', 'release', 'reimage', 'retire'),
  ...edgesFrom<NodeStatus>(['provisioning'], 'cleaning', 'release', 'reimage', 'retire'),
  // Drift: the provider no longer shows the machine, and the pool's policy is to repair.
  ...edgesFrom<NodeStatus>(
    ['starting', 'ready', 'degraded', 'offline', 'quarantined'],
    'cleaning',
    'release',
    'reimage',
    'retire',
    'drift',
  ),
  ...edgesFrom<NodeStatus>(['cleaning'], 'ready', 'proof'),
  ...edgesFrom<NodeStatus>(['cleaning'], 'provisioning', 'proof'),
  // From `quarantined` too: an operator may quarantine a node during its teardown.
  ...edgesFrom<NodeStatus>(['cleaning', 'quarantined'], 'retired', 'proof'),
  ...edgesFrom<NodeStatus>(
    ['cleaning'],
    'quarantined',
    'clean-deadline',
    'clean-error',
    'force-release',
    'quarantine',
    'drift',
  ),
  ...edgesFrom<NodeStatus>(
    liveStatusesExcept('cleaning').filter((s) => s !== 'draining' && s !== 'quarantined'),
    'quarantined',
    'quarantine',
    'drift',
  ),
  ...edgesFrom<NodeStatus>(['quarantined'], 'starting', 'reactivate'),
  ...edgesFrom<NodeStatus>(['quarantined'], 'provisioning', 're-enroll'),
];

export const allocationEdges: readonly Edge<AllocationStatus>[] = [
  ...edgesFrom<AllocationStatus>(['new'], 'requested', 'allocation-create'),
  ...edgesFrom<AllocationStatus>(['requested'], 'provisioning', 'node-assigned'),
  ...edgesFrom<AllocationStatus>(['requested'], 'failed', 'queue-deadline', 'provision-error'),
  ...edgesFrom<AllocationStatus>(['provisioning'], 'active', 'node-ready'),
  ...edgesFrom<AllocationStatus>(['provisioning'], 'failed', 'node-failed', 'node-lost'),
  ...edgesFrom<AllocationStatus>(['failed'], 'provisioning', 'rescue', 'retry'),
  ...edgesFrom<AllocationStatus>(['active'], 'failed', 'node-lost'),
  ...edgesFrom<AllocationStatus>(['requested', 'provisioning', 'active', 'failed'], 'releasing', 'release'),
  ...edgesFrom<AllocationStatus>(['releasing'], 'released', 'proof', 'force-release'),
  ...edgesFrom<AllocationStatus>(['releasing'], 'release_failed', 'release-deadline'),
  ...edgesFrom<AllocationStatus>(['release_failed'], 'releasing', 'release-retry', 'release'),
  ...edgesFrom<AllocationStatus>(['release_failed'], 'released', 'force-release'),
];

/** A change of a node that also changes its allocation, in the same transaction. */
export interface PairedChange {
  node: { from: readonly NodeStatus[]; to: NodeStatus };
  allocation: { from: AllocationStatus; to: AllocationStatus; by: Cause };
}

/** All statuses from which a node can enter this one. */
const statusesBefore = (to: NodeStatus): NodeStatus[] =>
  nodeEdges.flatMap((edge) => (edge.to === to && edge.from !== 'new' ? [edge.from] : []));

/** A paired change that happens whenever a node enters a status. */
const pairOnEntry = (node: NodeStatus, from: AllocationStatus, to: AllocationStatus, by: Cause): PairedChange => ({
  node: { from: statusesBefore(node), to: node },
  allocation: { from, to, by },
});

export const pairedChanges: readonly PairedChange[] = [
  pairOnEntry('ready', 'provisioning', 'active', 'node-ready'),
  pairOnEntry('failed', 'provisioning', 'failed', 'node-failed'),
  pairOnEntry('failed', 'active', 'failed', 'node-lost'),
  { node: { from: ['failed'], to: 'starting' }, allocation: { from: 'failed', to: 'provisioning', by: 'rescue' } },
  pairOnEntry('retired', 'provisioning', 'failed', 'node-lost'),
  pairOnEntry('retired', 'active', 'failed', 'node-lost'),
  // No operation brings a quarantined machine up, so a provisioning allocation would wait forever.
  pairOnEntry('quarantined', 'provisioning', 'failed', 'node-lost'),
];

/** Finds the changes of an allocation in the same transaction as a change of its node. */
export const pairedWith = (from: NodeStatus, to: NodeStatus): PairedChange['allocation'][] =>
  pairedChanges.filter((pair) => pair.node.to === to && pair.node.from.includes(from)).map((pair) => pair.allocation);

export function findEdge<Status extends string>(
  table: readonly Edge<Status>[],
  from: Status | 'new',
  to: Status,
  by: Cause,
): Edge<Status> | undefined {
  return table.find((edge) => edge.from === from && edge.to === to && edge.by.includes(by));
}
