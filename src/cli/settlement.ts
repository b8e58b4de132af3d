/** When a waiting is over, and with which exit status. Data: one row for each thing that can be waited for. */
import type { AllocationStatus, NodeStatus, OperationStatus } from '../lifecycle/states.ts';
import type { ExitName } from './exit-codes.ts';
import { isOver } from './render/progress.ts';
import type { Subject } from './subject.ts';

/** What the person wants to see: an allocation in use, one given back, or simply how a thing ends. */
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

/** Null while it goes on. */
export function settlementOf(subject: Subject, goal: Goal): ExitName | null {
  const { allocation, node, operation } = subject;
  if (allocation) {
    const end = allocationEnds[goal][allocation.status] ?? null;
    // A release that is tried again starts from release_failed: only the new operation's end makes that an answer.
    const stillTrying =
      goal === 'release' && allocation.status === 'release_failed' && operation !== null && !isOver(operation.progress);
    return stillTrying ? null : end;
  }
  if (node) return nodeEnds[node.status] ?? null;
  return operation ? (operationEnds[operation.status] ?? null) : null;
}
