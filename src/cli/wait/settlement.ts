/** When a waiting is over, and with which exit status. Data: one row for each thing that can be waited for. */
import type { AllocationStatus, NodeStatus, OperationStatus } from '../../lifecycle/model/states.ts';
import type { ExitName } from '../terminal/exit-codes.ts';
import { isWorkedOn, type Subject } from './subject.ts';

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

/** A failure is an answer only once nobody works on it any more: a pool may try several machines by itself. */
const isStillTried = (subject: Subject, goal: Goal): boolean => {
  const status = subject.allocation?.status;
  const mayGoOn = goal === 'release' ? status === 'release_failed' : status === 'failed';
  return mayGoOn && isWorkedOn(subject);
};

/** Null while it goes on. */
export function settlementOf(subject: Subject, goal: Goal): ExitName | null {
  const { allocation, node, operation } = subject;
  if (allocation) return isStillTried(subject, goal) ? null : (allocationEnds[goal][allocation.status] ?? null);
  if (node) return nodeEnds[node.status] ?? null;
  return operation ? (operationEnds[operation.status] ?? null) : null;
}
