/** What entering a status makes of the columns that the door itself owns, and the fact that tells of it. */
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

export interface Cited {
  by: Cause;
  /** In words for a person; becomes the verdict's reason where one is left. */
  reason: string;
  /** What the decision rests on. */
  data?: Record<string, unknown>;
  actor?: Actor | null;
  correlation_id?: CorrelationId | null;
  workflow_id?: WorkflowId | null;
  /** Where the caller knows it, null for nobody's; otherwise the allocation that holds the node is looked up. */
  allocation_id?: AllocationId | null | undefined;
}

/** What the clock of a new instance starts from, and what it must still show. */
const reborn = (pool: PoolDocument, now: Date) => ({
  clock_from: now,
  waiting_for: null,
  prerequisites: pool.requires && pool.requires.length > 0 ? ('unchecked' as const) : null,
});

function verdictOf(from: NodeStatus | 'new', to: NodeStatus, { by, reason, data }: Cited, now: Date): Verdict {
  const owner = ownerOf(by, to, data?.owner_layer);
  const certain = data?.certain === true && { certain: true };
  return { rule: by, reason, at: now.toISOString(), from, ...(owner !== null && { owner }), ...certain };
}

/** Its window to come back follows from what it was given to boot, whatever has been learned meanwhile. */
export const givenToBoot = (
  node: Pick<NodeRow, 'status' | 'budget_seconds' | 'budget_source' | 'requested_provision_seconds'>,
  to: NodeStatus,
): number | null =>
  to === 'failed' && node.status === 'provisioning' && node.budget_source === 'learned'
    ? node.budget_seconds
    : node.requested_provision_seconds;

export function entering(
  from: NodeStatus | 'new',
  to: NodeStatus,
  cited: Cited,
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
    verdict: leavesVerdict(cited.by, to) ? verdictOf(from, to, cited, now) : null,
    held: null,
    would_have: null,
    ...(to === 'provisioning' && reborn(pool, now)),
    ...(to !== 'draining' && { drain_then: null }),
  };
}

export function factOf(from: NodeStatus | 'new', node: NodeRow, cited: Cited, set: object, now: Date): Fact {
  return {
    at: now,
    layer: evidenceLayerOf(cited.by),
    kind: `node.${node.status}`,
    summary: from === 'new' ? `${node.status}: ${cited.reason}` : `${from} → ${node.status}: ${cited.reason}`,
    data: {
      from,
      to: node.status,
      by: cited.by,
      reason: cited.reason,
      ...(cited.data && { evidence: cited.data }),
      set,
    },
    actor: cited.actor ?? null,
    node_id: node.node_id,
    node_instance_id: node.node_instance_id,
    allocation_id: cited.allocation_id,
    correlation_id: cited.correlation_id ?? node.correlation_id,
    workflow_id: cited.workflow_id ?? node.workflow_id,
  };
}
