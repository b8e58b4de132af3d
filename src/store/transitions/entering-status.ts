/** Computes the columns that entering a status sets, and the fact that records the change. */
import { secondsLater } from '../../base/clock.ts';
import type { AllocationId, CorrelationId, WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { Verdict } from '../../contract/node.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import { type NodeStatus, nodeStatuses } from '../../lifecycle/model/states.ts';
import { type Cause, leavesVerdict, ownerOf } from '../../lifecycle/model/transitions.ts';
import type { Fact } from '../evidence/evidence.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { budgetOf, evidenceLayerOf, type TransitionEnvironment } from './transition-rules.ts';

export interface TransitionCause {
  by: Cause;
  /** A sentence for people. It is also the reason of the verdict, if there is one. */
  reason: string;
  /** Evidence for the decision. */
  data?: Record<string, unknown>;
  actor?: Actor | null;
  correlation_id?: CorrelationId | null;
  workflow_id?: WorkflowId | null;
  /** The holder of the node; null if there is none, undefined to look it up. */
  allocation_id?: AllocationId | null | undefined;
}

/** A new instance restarts the boot clock and the check of prerequisites. */
const newInstanceColumns = (pool: PoolDocument, now: Date) => ({
  clock_from: now,
  waiting_for: null,
  prerequisites: pool.requires && pool.requires.length > 0 ? ('unchecked' as const) : null,
});

function verdictOf(
  from: NodeStatus | 'new',
  to: NodeStatus,
  { by, reason, data }: TransitionCause,
  now: Date,
): Verdict {
  const owner = ownerOf(by, to, data?.owner_layer);
  const certain = data?.certain === true && { certain: true };
  return { rule: by, reason, at: now.toISOString(), from, ...(owner !== null && { owner }), ...certain };
}

/**
 * Returns the requested seconds for the next budget. For a failed boot with a learned budget, these
 * are that budget: the rescue window follows from it, even if another was learned since.
 */
export const resolveRequestedSeconds = (
  node: Pick<NodeRow, 'status' | 'budget_seconds' | 'budget_source' | 'requested_provision_seconds'>,
  to: NodeStatus,
): number | null =>
  to === 'failed' && node.status === 'provisioning' && node.budget_source === 'learned'
    ? node.budget_seconds
    : node.requested_provision_seconds;

export function computeStatusColumns(
  from: NodeStatus | 'new',
  to: NodeStatus,
  cause: TransitionCause,
  pool: PoolDocument,
  requested: number | null,
  now: Date,
  environment: TransitionEnvironment,
) {
  const phase = nodeStatuses[to].deadline;
  const budget = phase && budgetOf(phase, pool, environment, requested);
  return {
    status: to,
    status_since: now,
    deadline_at: budget ? secondsLater(now, budget.seconds) : null,
    budget_seconds: budget ? budget.seconds : null,
    budget_source: budget ? budget.source : null,
    verdict: leavesVerdict(cause.by, to) ? verdictOf(from, to, cause, now) : null,
    held: null,
    would_have: null,
    ...(to === 'provisioning' && newInstanceColumns(pool, now)),
    ...(to !== 'draining' && { drain_then: null }),
  };
}

export function factOf(from: NodeStatus | 'new', node: NodeRow, cause: TransitionCause, set: object, now: Date): Fact {
  return {
    at: now,
    layer: evidenceLayerOf(cause.by),
    kind: `node.${node.status}`,
    summary: from === 'new' ? `${node.status}: ${cause.reason}` : `${from} → ${node.status}: ${cause.reason}`,
    data: {
      from,
      to: node.status,
      by: cause.by,
      reason: cause.reason,
      ...(cause.data && { evidence: cause.data }),
      set,
    },
    actor: cause.actor ?? null,
    node_id: node.node_id,
    node_instance_id: node.node_instance_id,
    allocation_id: cause.allocation_id,
    correlation_id: cause.correlation_id ?? node.correlation_id,
    workflow_id: cause.workflow_id ?? node.workflow_id,
  };
}
