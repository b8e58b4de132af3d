/**
 * What is known of the one thing that a person waits for, and how news about it is taken in. Pure: news may come twice,
 * late, or from a stream and a poll at once, and the newest must win.
 */
import type { Allocation } from '../../contract/allocation.ts';
import type { TargetKind } from '../../contract/fleet/find.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import { isOver, type ReadableProgress } from '../render/allocations/progress.ts';

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

export const nothingKnown: Subject = { allocation: null, node: null, operation: null };

const prefixes: Record<string, TargetKind> = { alloc: 'allocation', node: 'node', op: 'operation' };

/** The prefix of an id says what it names. */
export const kindOfId = (id: string): TargetKind | null => prefixes[id.slice(0, id.indexOf('_'))] ?? null;

const notOlder = (before: string | undefined, after: string) =>
  before === undefined || Date.parse(after) >= Date.parse(before);

export function learnAllocation(subject: Subject, allocation: Allocation): Subject {
  const known = subject.allocation;
  if (known && known.allocation_id !== allocation.allocation_id) return subject;
  return notOlder(known?.status_since, allocation.status_since) ? { ...subject, allocation } : subject;
}

export function learnNode(subject: Subject, node: Node): Subject {
  const known = subject.node;
  if (known && known.node_id !== node.node_id) return subject;
  return notOlder(known?.status_since, node.status_since) ? { ...subject, node } : subject;
}

/** Of one operation the later progress counts; of two operations the one that began later. */
export function learnOperation(subject: Subject, operation: Operation): Subject {
  const known = subject.operation;
  const newer =
    known?.workflow_id === operation.workflow_id
      ? notOlder(known.progress.updated_at, operation.progress.updated_at)
      : notOlder(known?.created_at, operation.created_at);
  return newer ? { ...subject, operation } : subject;
}

/** Whether an operation on the allocation is open: the one we know best, or a newer one that only the allocation names yet. */
export function isWorkedOn({ allocation, operation }: Subject): boolean {
  if (operation && !isOver(operation.progress)) return true;
  const named = allocation?.progress ?? null;
  return named !== null && named.workflow_id !== operation?.workflow_id && !isOver(named);
}

/** Why the last try failed, while the next one, which was asked for after that, is on its way. */
export function setbackOf({ allocation, operation }: Subject): string | null {
  if (allocation?.status !== 'failed' || !operation || isOver(operation.progress)) return null;
  return Date.parse(operation.created_at) >= Date.parse(allocation.status_since) ? allocation.reason : null;
}

export const progressOf = (subject: Subject): ReadableProgress | null =>
  subject.operation?.progress ?? subject.allocation?.progress ?? null;
