/**
 * Merges updates into the subject of a wait, and decides when it has settled. Pure. Updates may
 * come twice, late, or from the stream and a poll at once; the newest wins.
 */
import { type IdKind, kindOfId } from '../../base/ids.ts';
import type { Allocation } from '../../contract/allocation.ts';
import type { TargetKind } from '../../contract/fleet/find.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import type { AllocationStatus, NodeStatus, OperationStatus } from '../../lifecycle/model/states.ts';
import { isOver, type ReadableProgress } from '../render/allocations/progress.ts';
import type { ExitName } from '../terminal/exit-codes.ts';

export type { TargetKind };

export interface Target {
  kind: TargetKind;
  id: string;
}

export interface Subject {
  allocation: Allocation | null;
  node: Node | null;
  operation: Operation | null;
}

export const emptySubject: Subject = { allocation: null, node: null, operation: null };

const targetKinds: Partial<Record<IdKind, TargetKind>> = {
  allocation: 'allocation',
  node: 'node',
  workflow: 'operation',
};

/** Returns the kind of target that the id's prefix names, or null. */
export function targetKindOf(id: string): TargetKind | null {
  const kind = kindOfId(id);
  return (kind && targetKinds[kind]) ?? null;
}

const isNotOlder = (current: string | undefined, update: string) =>
  current === undefined || Date.parse(update) >= Date.parse(current);

export function mergeAllocation(subject: Subject, allocation: Allocation): Subject {
  const current = subject.allocation;
  if (current && current.allocation_id !== allocation.allocation_id) return subject;
  return isNotOlder(current?.status_since, allocation.status_since) ? { ...subject, allocation } : subject;
}

export function mergeNode(subject: Subject, node: Node): Subject {
  const current = subject.node;
  if (current && current.node_id !== node.node_id) return subject;
  return isNotOlder(current?.status_since, node.status_since) ? { ...subject, node } : subject;
}

/** Compares updates of one operation by progress, and two operations by creation time. */
export function mergeOperation(subject: Subject, operation: Operation): Subject {
  const current = subject.operation;
  const isNewer =
    current?.workflow_id === operation.workflow_id
      ? isNotOlder(current.progress.updated_at, operation.progress.updated_at)
      : isNotOlder(current?.created_at, operation.created_at);
  return isNewer ? { ...subject, operation } : subject;
}

/** Also finds a newer operation that only the allocation names so far. */
export function hasRunningOperation({ allocation, operation }: Subject): boolean {
  if (operation && !isOver(operation.progress)) return true;
  const progress = allocation?.progress ?? null;
  return progress !== null && progress.workflow_id !== operation?.workflow_id && !isOver(progress);
}

/** Returns why the last attempt failed, while the next attempt runs. */
export function setbackOf({ allocation, operation }: Subject): string | null {
  if (allocation?.status !== 'failed' || !operation || isOver(operation.progress)) return null;
  return Date.parse(operation.created_at) >= Date.parse(allocation.status_since) ? allocation.reason : null;
}

export const progressOf = (subject: Subject): ReadableProgress | null =>
  subject.operation?.progress ?? subject.allocation?.progress ?? null;

/** The outcome that the user waits for. `settle` accepts any final status. */
export type Goal = 'use' | 'release' | 'settle';

const allocationEnds: Record<Goal, Partial<Record<AllocationStatus, ExitName>>> = {
  use: { active: 'ok', failed: 'failed', released: 'failed', release_failed: 'failed' },
  release: { released: 'ok', release_failed: 'failed' },
  settle: { active: 'ok', failed: 'failed', released: 'ok', release_failed: 'failed' },
};

const nodeEnds: Partial<Record<NodeStatus, ExitName>> = {
  ready: 'ok',
  degraded: 'ok',
  retired: 'ok',
  failed: 'failed',
  quarantined: 'failed',
};

const operationEnds: Partial<Record<OperationStatus, ExitName>> = {
  succeeded: 'ok',
  failed: 'failed',
  cancelled: 'failed',
};

/**
 * A failure is not final while an operation runs: a pool may try several machines, and a failed
 * release is retried.
 */
const isRetried = (subject: Subject, goal: Goal): boolean => {
  const status = subject.allocation?.status;
  const canContinue = goal === 'release' ? status === 'release_failed' : status === 'failed';
  return canContinue && hasRunningOperation(subject);
};

/** Returns the exit status if the subject has settled, or else null. */
export function exitOfWait(subject: Subject, goal: Goal): ExitName | null {
  const { allocation, node, operation } = subject;
  if (allocation) return isRetried(subject, goal) ? null : (allocationEnds[goal][allocation.status] ?? null);
  if (node) return nodeEnds[node.status] ?? null;
  return operation ? (operationEnds[operation.status] ?? null) : null;
}
