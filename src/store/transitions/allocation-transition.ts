/** The only writer of an allocation's status. node-transition.ts explains the shared rules. */
import { secondsLater } from '../../base/clock.ts';
import type { AllocationId, CorrelationId, NodeId, WorkflowId } from '../../base/ids.ts';
import { type OwnerLayer, ownerLayers } from '../../contract/errors/problem.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { Verdict } from '../../contract/node.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import { type AllocationStatus, allocationStatuses, type NodeStatus } from '../../lifecycle/model/states.ts';
import { allocationEdges, type Cause, findEdge, isVerdict } from '../../lifecycle/model/transitions.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { byIds } from '../pg/by-ids.ts';
import type { Transaction } from '../pg/database.ts';
import { redactRows } from '../pg/redacted-rows.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { readCurrentDocuments } from '../rows/pools.ts';
import {
  budgetOf,
  evidenceLayerOf,
  insertRow,
  type Refusal,
  type TransitionEnvironment,
  writeChanged,
} from './transition-rules.ts';

export type AllocationChanges = Partial<Pick<AllocationRow, 'node_id' | 'workflow_id' | 'release_tries'>>;

export interface AllocationMove {
  /**
   * Unset for a change that follows from a change of the node. Such a change selects the allocation
   * by `node_id` and a status in `from`.
   */
  allocation_id?: AllocationId;
  node_id?: NodeId;
  to: AllocationStatus;
  from?: readonly AllocationStatus[];
  by: Cause;
  reason: string;
  owner_layer?: OwnerLayer;
  set?: AllocationChanges;
  data?: Record<string, unknown>;
  actor?: Actor | null;
  correlation_id?: CorrelationId | null;
  workflow_id?: WorkflowId | null;
  /** When the node failed. A rescue selects only an allocation that failed at the same time. */
  failed_at?: Date;
  /** The node after its own change. The allocation may share the node's deadline. */
  node?: Pick<NodeRow, 'node_instance_id' | 'deadline_at' | 'budget_seconds' | 'budget_source'>;
}

export type AllocationMoveOutcome =
  | { moved: true; allocation: AllocationRow; from: AllocationStatus }
  | { moved: false; because: Refusal; allocation: AllocationRow | null };

const lockSql = (condition: string) => `
  select *
  from allocations
  where ${condition}
  order by allocation_id
  for no key update`;

function lockAllocations(tx: Transaction, moves: AllocationMove[]): Promise<AllocationRow[]> {
  const ids = moves.flatMap((move) => move.allocation_id ?? []);
  const nodeIds = moves.flatMap((move) => (move.allocation_id ? [] : (move.node_id ?? [])));
  const byId = byIds('allocation_id', '$1', ids);
  if (nodeIds.length === 0) return tx.query<AllocationRow>(lockSql(byId.condition), [byId.value], byId.options);
  const byNode = byIds('node_id', '$1', [...new Set(nodeIds)]);
  const onNode = `${byNode.condition} and status <> 'released'`;
  if (ids.length === 0) return tx.query<AllocationRow>(lockSql(onNode), [byNode.value], byNode.options);
  const either = `allocation_id = any($1) or (node_id = any($2) and status <> 'released')`;
  return tx.query<AllocationRow>(lockSql(either), [ids, nodeIds]);
}

function refusalOf(allocation: AllocationRow, move: AllocationMove): Refusal | undefined {
  if (allocation.status === move.to) return 'already_there';
  if (move.from && !move.from.includes(allocation.status)) return 'status_moved_on';
  return findEdge(allocationEdges, allocation.status, move.to, move.by) ? undefined : 'no_such_edge';
}

export type AllocationDeadline = Pick<AllocationRow, 'deadline_at' | 'budget_seconds' | 'budget_source'>;

const noDeadline = { deadline_at: null, budget_seconds: null, budget_source: null };

/**
 * Returns the deadline of the node if the allocation shares it, while the node provisions or can be
 * rescued; `noDeadline` if the status has none; undefined if the allocation needs its own.
 */
export function findSharedDeadline(
  to: AllocationStatus,
  node: AllocationDeadline | undefined,
): AllocationDeadline | undefined {
  const phase = allocationStatuses[to].deadline;
  if (phase === null) return noDeadline;
  if (!node?.deadline_at || (phase !== 'provision' && phase !== 'rescue')) return undefined;
  const { deadline_at, budget_seconds, budget_source } = node;
  return { deadline_at, budget_seconds, budget_source };
}

function deadlineOf(
  to: AllocationStatus,
  move: Pick<AllocationMove, 'node'>,
  pool: PoolDocument,
  requested: number | null,
  now: Date,
  environment: TransitionEnvironment,
) {
  const phase = allocationStatuses[to].deadline;
  const shared = findSharedDeadline(to, move.node);
  if (shared || phase === null) return shared ?? noDeadline;
  const budget = budgetOf(phase, pool, environment, requested);
  return {
    deadline_at: secondsLater(now, budget.seconds),
    budget_seconds: budget.seconds,
    budget_source: budget.source,
  };
}

const verdictOf = ({ by, reason, data }: Pick<AllocationMove, 'by' | 'reason' | 'data'>, now: Date): Verdict => ({
  ...{ rule: by, reason, at: now.toISOString() },
  ...(data?.certain === true && { certain: true }),
});

/** The cause of the node's failure may name the owner; by default it is the node. */
const ownerOfFailure = ({ to, data }: Pick<AllocationMove, 'to' | 'data'>): OwnerLayer | null =>
  to === 'failed' || to === 'release_failed'
    ? (ownerLayers.find((each) => each === data?.owner_layer) ?? 'node')
    : null;

/** The columns that entering a status sets. */
export const computeAllocationColumns = (
  move: Pick<AllocationMove, 'to' | 'by' | 'reason' | 'owner_layer' | 'data'>,
  deadline: AllocationDeadline,
  now: Date,
) => ({
  status: move.to,
  status_since: now,
  ...deadline,
  verdict: isVerdict(move.by) ? verdictOf(move, now) : null,
  reason: move.reason,
  owner_layer: move.owner_layer ?? ownerOfFailure(move),
  ...(move.to === 'active' && { active_at: now }),
  ...(move.to === 'released' && { released_at: now }),
});

function factOf(
  from: AllocationStatus | 'new',
  allocation: AllocationRow,
  move: AllocationMove,
  set: object,
  now: Date,
): Fact {
  return {
    at: now,
    layer: evidenceLayerOf(move.by),
    kind: `allocation.${allocation.status}`,
    summary: from === 'new' ? `${allocation.status}: ${move.reason}` : `${from} → ${allocation.status}: ${move.reason}`,
    data: {
      from,
      to: allocation.status,
      by: move.by,
      reason: move.reason,
      ...(move.data && { evidence: move.data }),
      set,
    },
    actor: move.actor ?? null,
    node_id: allocation.node_id,
    node_instance_id: move.node?.node_instance_id ?? null,
    correlation_id: move.correlation_id ?? allocation.correlation_id,
    allocation_id: allocation.allocation_id,
    workflow_id: move.workflow_id ?? allocation.workflow_id,
  };
}

/** Whether a paired change applies to this unreleased allocation of the node. */
const matchesMove = (move: AllocationMove) => (row: AllocationRow) =>
  (!move.from || move.from.includes(row.status)) &&
  (!move.failed_at || row.status_since.getTime() === move.failed_at.getTime());

export async function moveAllocations(
  tx: Transaction,
  moves: AllocationMove[],
  now: Date,
  environment: TransitionEnvironment,
): Promise<AllocationMoveOutcome[]> {
  if (moves.length === 0) return [];
  const locked = await lockAllocations(tx, moves);
  const pools = await readCurrentDocuments(
    tx,
    locked.map((row) => row.pool),
  );
  const byId = new Map(locked.map((row) => [row.allocation_id, row]));
  const byNode = Map.groupBy<NodeId | null | undefined, AllocationRow>(locked, (row) => row.node_id);
  const changed = new Map<AllocationId, object>();
  const facts: Fact[] = [];

  const outcomes = moves.map((move): AllocationMoveOutcome => {
    const allocation = move.allocation_id
      ? byId.get(move.allocation_id)
      : byNode.get(move.node_id)?.find(matchesMove(move));
    const pool = allocation && pools.get(allocation.pool);
    if (!pool) return { moved: false, because: 'not_found', allocation: null };
    const refusal = refusalOf(allocation, move);
    if (refusal) return { moved: false, because: refusal, allocation };
    const from = allocation.status;
    const set = {
      ...move.set,
      ...computeAllocationColumns(
        move,
        deadlineOf(move.to, move, pool, allocation.provision_timeout_seconds, now, environment),
        now,
      ),
    };
    Object.assign(allocation, set);
    changed.set(allocation.allocation_id, { ...changed.get(allocation.allocation_id), ...set });
    facts.push(factOf(from, allocation, move, set, now));
    return { moved: true, allocation, from };
  });

  await writeChanged(tx, 'allocations', 'allocation_id', changed);
  await recordEvidence(tx, facts);
  return outcomes;
}

export type NewAllocation = Pick<
  AllocationRow,
  | 'allocation_id'
  | 'pool'
  | 'tenant'
  | 'name'
  | 'workflow_id'
  | 'correlation_id'
  | 'provision_timeout_seconds'
  | 'labels'
>;

/** Creates an allocation with the status `requested`. */
export async function createAllocation(
  tx: Transaction,
  fresh: NewAllocation,
  pool: PoolDocument,
  cause: { reason: string; actor: Actor | null },
  now: Date,
  environment: TransitionEnvironment,
): Promise<AllocationRow> {
  const move: AllocationMove = { to: 'requested', by: 'allocation-create', ...cause };
  const allocation: AllocationRow = {
    ...fresh,
    status: 'requested',
    status_since: now,
    ...deadlineOf('requested', move, pool, null, now, environment),
    node_id: null,
    reason: null,
    owner_layer: null,
    release_tries: 0,
    verdict: null,
    created_at: now,
    active_at: null,
    released_at: null,
  };
  await insertRow(tx, 'allocations', { ...allocation });
  await recordEvidence(tx, [factOf('new', allocation, move, allocation, now)]);
  return allocation;
}

/** The new reason of an active allocation whose machine changed; the status does not change. */
export function noticeOf(from: NodeStatus, node: Pick<NodeRow, 'status' | 'verdict'>): string | undefined {
  if (node.status === 'offline') return `its machine is offline: ${node.verdict?.reason ?? 'it is silent'}`;
  if (from === 'offline' && node.status === 'provisioning') return 'its machine is enrolling again';
  // A machine that enrolled again passes through `starting`. A machine that starts for the first
  // time has no active allocation.
  if ((from === 'offline' || from === 'starting') && (node.status === 'ready' || node.status === 'degraded'))
    return 'its machine is back';
  return undefined;
}

export async function notifyAllocations(
  tx: Transaction,
  notices: { node_id: NodeId; reason: string }[],
  now: Date,
): Promise<void> {
  if (notices.length === 0) return;
  const nodes = notices.map(({ node_id }) => node_id);
  const { condition, value, options } = byIds('allocation.node_id', '$2', nodes);
  const notified = await tx.query<AllocationRow>(
    `update allocations allocation set reason = notice.reason
     from jsonb_to_recordset($1::jsonb) as notice(node_id text, reason text)
     where allocation.node_id = notice.node_id
       and ${condition}
       and allocation.status = 'active'
     returning allocation.*`,
    [redactRows(tx.redact, notices, ['reason']), value],
    options,
  );
  await recordEvidence(
    tx,
    notified.map((allocation) => ({
      at: now,
      layer: 'rule',
      kind: 'allocation.told',
      summary: `the allocation stays active: ${allocation.reason}`,
      data: { set: { allocation_id: allocation.allocation_id, reason: allocation.reason } },
      node_id: allocation.node_id,
      allocation_id: allocation.allocation_id,
      correlation_id: allocation.correlation_id,
      workflow_id: allocation.workflow_id,
    })),
  );
}
