/**
 * The subject of a wait, how updates merge into it, and when it has settled. Pure. Updates may come
 * twice, late, or from the stream and a poll at once; the newest wins.
 */
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

const prefixes: Record<string, TargetKind> = { alloc: 'allocation', node: 'node', op: 'operation' };

/** Reads the kind from the prefix of an id. */
export const kindOfId = (id: string): TargetKind | null => prefixes[id.slice(0, id.indexOf('_'))] ?? null;

const notOlder = (before: string | undefined, after: string) =>
  before === undefined || Date.parse(after) >= Date.parse(before);

export function mergeAllocation(subject: Subject, allocation: Allocation): Subject {
  const known = subject.allocation;
  if (known && known.allocation_id !== allocation.allocation_id) return subject;
  return notOlder(known?.status_since, allocation.status_since) ? { ...subject, allocation } : subject;
}

export function mergeNode(subject: Subject, node: Node): Subject {
  const known = subject.node;
  if (known && known.node_id !== node.node_id) return subject;
  return notOlder(known?.status_since, node.status_since) ? { ...subject, node } : subject;
}

/** Compares progress within one operation, and the creation time of two operations. */
export function mergeOperation(subject: Subject, operation: Operation): Subject {
  const known = subject.operation;
  const newer =
    known?.workflow_id === operation.workflow_id
      ? notOlder(known.progress.updated_at, operation.progress.updated_at)
      : notOlder(known?.created_at, operation.created_at);
  return newer ? { ...subject, operation } : subject;
}

/** Counts the known operation, and a newer one that so far only the allocation names. */
export function hasOpenOperation({ allocation, operation }: Subject): boolean {
  if (operation && !isOver(operation.progress)) return true;
  const named = allocation?.progress ?? null;
  return named !== null && named.workflow_id !== operation?.workflow_id && !isOver(named);
}

/** Why the last attempt failed, while the next one runs. */
export function setbackOf({ allocation, operation }: Subject): string | null {
  if (allocation?.status !== 'failed' || !operation || isOver(operation.progress)) return null;
  return Date.parse(operation.created_at) >= Date.parse(allocation.status_since) ? allocation.reason : null;
}

export const progressOf = (subject: Subject): ReadableProgress | null =>
  subject.operation?.progress ?? subject.allocation?.progress ?? null;

/** The outcome that the user waits for. `settle` accepts any end. */
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

/** A failure is final only when no operation is open: a pool may try several machines. */
const isRetried = (subject: Subject, goal: Goal): boolean => {
  const status = subject.allocation?.status;
  const canContinue = goal === 'release' ? status === 'release_failed' : status === 'failed';
  return canContinue && hasOpenOperation(subject);
};

/** The exit status once the subject has settled; null while it has not. */
export function settlementOf(subject: Subject, goal: Goal): ExitName | null {
  const { allocation, node, operation } = subject;
  if (allocation) return isRetried(subject, goal) ? null : (allocationEnds[goal][allocation.status] ?? null);
  if (node) return nodeEnds[node.status] ?? null;
  return operation ? (operationEnds[operation.status] ?? null) : null;
}
