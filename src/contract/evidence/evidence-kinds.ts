/**
 * Every kind of evidence that the server writes. `Fact.kind` has this type, so an unregistered kind
 * does not compile. The nouns of these kinds are reserved: callers cannot post them.
 */
import type { Origin, OwnOrigin } from '../../lifecycle/explain/evidence-origins.ts';
import {
  allocationStatusNames,
  nodeStatusNames,
  operationStatuses,
  stepStatuses,
} from '../../lifecycle/model/states.ts';

/** Decisions, actions and observations of the control plane. */
const internalKinds = [
  'action.done',
  'action.refused',
  'allocation.bound',
  'allocation.deadline_moved',
  'allocation.explained',
  'allocation.pruned',
  'allocation.restated',
  'allocation.restored',
  'allocation.retrying',
  'allocation.snapshot',
  'allocation.told',
  'beat.refused',
  'brake.ended',
  'brake.held',
  'brake.resumed',
  'budget.learned',
  'connection.broken',
  'count.repaired',
  'credential.key_changed',
  'credential.reissued',
  'credential.replaced',
  'credential.rotated',
  'driver.done',
  'driver.failed',
  'driver.unanswered',
  'driver.wait',
  'evidence.cut',
  'evidence.dropped',
  'evidence.lost',
  'evidence.missing',
  'evidence.restored',
  'finding.accepted',
  'finding.opened',
  'finding.repaired',
  'finding.resolved',
  'ingest.gap',
  'instance.fenced',
  'instance.revoked',
  'join_token.created',
  'join_token.revoked',
  'log_level.changed',
  'maintenance.declared',
  'maintenance.ended',
  'node.bound',
  'node.deadline_moved',
  'node.explained',
  'node.follows_pool',
  'node.held',
  'node.held_over',
  'node.joined',
  'node.observed',
  'node.prerequisites',
  'node.pruned',
  'node.restarted',
  'node.restated',
  'node.restored',
  'node.snapshot',
  'node.would_have',
  'operation.overdue',
  'operation.progress',
  'operation.started',
  'operation.waited_for_store',
  'operation.taken_over',
  'ping.answered',
  'ping.skipped',
  'pool.budget_set',
  'pool.declared',
  'pool.deleted',
  'probe.answered',
  'probe.unanswered',
  'recovery.asked',
  'recovery.failed',
  'recovery.skipped',
  'recovery.stopped',
  'registration.refused',
  'replica.ended',
  'request.denied',
  'request.served',
  'residue.adopted',
  'residue.found',
  'residue.gone',
  'residue.left',
  'residue.verified',
  'restoration.ended',
  'secret.deleted',
  'secret.rotated',
  'secret.set',
  'session.ended',
  'session.opened',
  'step.retrying',
  'step.started',
  'task.leased',
  'task.queued',
  'task.redelivered',
  'task.requeued',
  'task_key.rotated',
  'token.created',
  'token.revoked',
  'verdict.unwritable',
] as const;

/** Kinds with values and texts of a machine, if they are written in the node layer. */
const reportedKinds = [
  'boot.stage',
  'bootstrap.diagnosis',
  'client.registered',
  'client.said',
  'evidence.frozen',
  'node.claim',
  'node.reports_cleared',
  'prerequisite.met',
  'prerequisite.missing',
  'proof.absent',
  'proof.clean',
  'proof.revoked',
  'task.failed',
  'task.succeeded',
] as const;

const statusKinds = [
  ...nodeStatusNames.map((status) => `node.${status}` as const),
  ...allocationStatusNames.map((status) => `allocation.${status}` as const),
  ...operationStatuses.map((status) => `operation.${status}` as const),
  ...stepStatuses.map((status) => `step.${status}` as const),
];

export type EvidenceKind =
  | (typeof internalKinds)[number]
  | (typeof reportedKinds)[number]
  | (typeof statusKinds)[number];

export const evidenceKinds: readonly EvidenceKind[] = [...internalKinds, ...reportedKinds, ...statusKinds];

const nounOf = (kind: string): string => kind.split('.', 1)[0] ?? kind;

export const reservedNouns: readonly string[] = [...new Set(evidenceKinds.map(nounOf))].sort();
const reservedNounSet = new Set(reservedNouns);

/**
 * Whole nouns are reserved, so that evidence posted today cannot be mistaken for a kind of a later
 * version.
 */
export const isReservedKind = (kind: string): boolean => reservedNounSet.has(nounOf(kind));

const reportedKindSet: ReadonlySet<string> = new Set(reportedKinds);

/**
 * The origin of evidence that the server writes. A reported kind in another layer is the server's
 * own statement, such as a task that failed because its lease expired.
 */
export const originOf = ({ kind, layer }: { kind: EvidenceKind; layer: string }): OwnOrigin =>
  layer === 'node' && reportedKindSet.has(kind) ? 'report' : 'internal';

/**
 * Nouns that callers could post before origins were recorded. Old evidence with these nouns may
 * have been posted by a caller.
 */
export const lateReservedNouns: readonly string[] = ['beat', 'ping', 'probe', 'secret', 'session', 'task_key'];

/** Whether the server recorded this evidence itself, so that its kind and shape are reliable. */
export function isOwnFact({ kind, origin }: { kind: string; origin: Origin }): boolean {
  if (origin === 'unknown') return isReservedKind(kind) && !lateReservedNouns.includes(nounOf(kind));
  return origin === 'internal' || origin === 'report';
}
