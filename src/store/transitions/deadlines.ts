/**
 * Moves deadlines outside transitions: for an operator, an advance, granted capacity, a retried
 * release, or an outage of the control plane. An allocation that waits for the node shares its
 * deadline, so both move together.
 */
import { secondsLater } from '../../base/clock.ts';
import type { WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import { isNodeRule } from '../../lifecycle/model/rules.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Transaction } from '../pg/database.ts';
import type { AllocationRow } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { amendNodes, type NodeAmendment } from './amend-node.ts';
import { writeRows } from './transition-rules.ts';

export interface DeadlineMove {
  node: NodeRow;
  deadline_at: Date;
  /** Other columns that change with the deadline. */
  set?: Pick<NodeAmendment, 'clock_from' | 'waiting_for'>;
  reason: string;
  data?: Record<string, unknown>;
}

export interface MovedBy {
  layer: 'operator' | 'node' | 'provider' | 'rule' | 'store';
  actor?: Actor | null;
}

/**
 * Clears an observe-only verdict of a sweep, because the sweep decides again. A verdict from a
 * machine's report stays, because no sweep would record it again.
 */
const remainingWouldHave = ({ would_have }: NodeRow) => (would_have && isNodeRule(would_have.rule) ? null : would_have);

/** The caller holds the node locks. Sweeps decide held and observe-only verdicts again later. */
export async function moveDeadlines(
  tx: Transaction,
  moves: DeadlineMove[],
  by: MovedBy,
  now: Date,
): Promise<NodeRow[]> {
  const rows = await amendNodes(
    tx,
    moves.map(({ node, deadline_at, set, reason, data }) => ({
      node,
      set: { deadline_at, held: null, would_have: remainingWouldHave(node), ...set },
      fact: {
        at: now,
        layer: by.layer,
        kind: 'node.deadline_moved',
        summary: `the deadline is now ${deadline_at.toISOString()}: ${reason}`,
        data: { before: node.deadline_at, reason, ...data },
        actor: by.actor ?? null,
      },
    })),
  );
  const allocations = await tx.query<{
    allocation_id: string;
    correlation_id: string;
    workflow_id: string | null;
    node_id: string;
  }>(
    `update allocations allocation set deadline_at = moved.deadline_at
     from jsonb_to_recordset($1::jsonb) as moved(node_id text, deadline_at timestamptz, before timestamptz)
     where allocation.node_id = moved.node_id
       -- Lets the planner use the index.
       and allocation.node_id = any($2)
       and allocation.status in ('provisioning', 'failed')
       -- An allocation with another deadline does not share the node's.
       and allocation.deadline_at = moved.before
     returning allocation.allocation_id, allocation.correlation_id, allocation.workflow_id, allocation.node_id`,
    [
      JSON.stringify(
        moves.map(({ node, deadline_at }) => ({ node_id: node.node_id, deadline_at, before: node.deadline_at })),
      ),
      moves.map(({ node }) => node.node_id),
    ],
  );
  const moveByNode = new Map(moves.map((move) => [move.node.node_id as string, move]));
  await recordEvidence(
    tx,
    allocations.map(({ allocation_id, correlation_id, workflow_id, node_id }) => {
      const move = moveByNode.get(node_id);
      return {
        at: now,
        layer: by.layer,
        kind: 'allocation.deadline_moved',
        summary: `the deadline is now ${move?.deadline_at.toISOString()}: ${move?.reason}`,
        data: { set: { allocation_id, deadline_at: move?.deadline_at } },
        actor: by.actor ?? null,
        node_id: node_id as never,
        allocation_id: allocation_id as never,
        correlation_id: correlation_id as never,
        workflow_id: workflow_id as never,
      };
    }),
  );
  return rows;
}

/** Renews the whole budget of a `cleaning` node for a retried release. The caller locked it. */
export async function renewCleaning(
  tx: Transaction,
  node: NodeRow | undefined,
  { actor }: { actor: Actor | null },
  now: Date,
): Promise<void> {
  if (node?.status !== 'cleaning' || node.budget_seconds === null) return;
  const deadline_at = secondsLater(now, node.budget_seconds);
  const by: MovedBy = { layer: actor ? 'operator' : 'rule', actor };
  await moveDeadlines(tx, [{ node, deadline_at, reason: 'the release is retried' }], by, now);
}

/**
 * Moves a deadline that the allocation does not share with a node. The caller holds the row lock.
 */
export async function moveAllocationDeadline(
  tx: Transaction,
  allocation: AllocationRow,
  { deadline_at, reason }: { deadline_at: Date; reason: string },
  by: MovedBy,
  now: Date,
): Promise<void> {
  const set = { deadline_at };
  await writeRows(tx, 'allocations', 'allocation_id', Object.keys(set), [{ ...allocation, ...set }]);
  await recordEvidence(tx, [
    {
      at: now,
      layer: by.layer,
      kind: 'allocation.deadline_moved',
      summary: `the deadline is now ${deadline_at.toISOString()}: ${reason}`,
      data: { set: { allocation_id: allocation.allocation_id, ...set }, before: allocation.deadline_at, reason },
      actor: by.actor ?? null,
      allocation_id: allocation.allocation_id,
      node_id: allocation.node_id,
      correlation_id: allocation.correlation_id,
      workflow_id: allocation.workflow_id,
    },
  ]);
}

/** Extends the open steps of an operation whose node or allocation got more time. */
export async function extendSteps(tx: Transaction, workflow_id: WorkflowId, seconds: number): Promise<void> {
  await tx.query(
    `update steps set
       within_seconds = within_seconds + $2::double precision,
       deadline_at = deadline_at + make_interval(secs => $2::double precision)
     where workflow_id = $1
       and within_seconds is not null
       and status in ('pending', 'running', 'waiting')`,
    [workflow_id, seconds],
  );
}
