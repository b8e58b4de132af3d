/**
 * Changes nodes without changing their status. Every change is recorded, so that the row can be
 * rebuilt from its facts.
 */
import type { AllocationId, CorrelationId, KnownIds, WorkflowId } from '../../base/ids.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import type { Transaction } from '../pg/database.ts';
import { findHolders } from '../rows/allocations.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { writeRows } from './transition-rules.ts';

export type NodeAmendment = Partial<
  Pick<
    NodeRow,
    | 'node_instance_id'
    | 'workflow_id'
    | 'correlation_id'
    | 'pool_generation'
    | 'reported_status'
    | 'restarts'
    | 'endpoint'
    | 'deadline_at'
    | 'clock_from'
    | 'waiting_for'
    | 'prerequisites'
    | 'held'
    | 'would_have'
    | 'verdict'
    | 'observed_state'
    | 'observed_at'
  >
>;

/** The ids that the fact about an amended row needs. */
export type AmendedNode = Pick<NodeRow, 'node_id' | 'node_instance_id' | 'correlation_id' | 'workflow_id'>;

export interface Amendment<N extends AmendedNode = AmendedNode> {
  node: N;
  set: NodeAmendment;
  fact: Fact;
}

/** The caller read each `node` under its row lock. All amendments set the same columns. */
export async function amendNodes<N extends AmendedNode>(tx: Transaction, amendments: Amendment<N>[]): Promise<N[]> {
  const [first] = amendments;
  if (!first) return [];
  const rows = amendments.map(({ node, set }) => ({ ...node, ...set }));
  await writeRows(tx, 'nodes', 'node_id', Object.keys(first.set), rows);
  const facts = amendments.map(({ fact, set }, index): Fact => {
    const amended = rows[index] ?? first.node;
    return {
      ...fact,
      data: { ...fact.data, set },
      node_id: amended.node_id,
      node_instance_id: amended.node_instance_id,
      correlation_id: fact.correlation_id ?? amended.correlation_id,
      workflow_id: amended.workflow_id,
    };
  });
  await fillAllocationIds(tx, facts);
  await recordEvidence(tx, facts);
  return rows;
}

export async function amendNode(tx: Transaction, node: NodeRow, set: NodeAmendment, fact: Fact): Promise<NodeRow> {
  const [amended] = await amendNodes(tx, [{ node, set, fact }]);
  return amended ?? node;
}

interface BoundNode {
  node: NodeRow;
  operation: { workflow_id: WorkflowId; correlation_id: CorrelationId; kind: string };
  /** The allocation that holds the node, if the caller knows it. */
  allocation?: { allocation_id: AllocationId };
}

/** Records which operation works on each node. */
export async function bindNodesToOperations(tx: Transaction, bound: BoundNode[], now: Date): Promise<void> {
  const changed = bound.filter(
    ({ node, operation }) =>
      node.workflow_id !== operation.workflow_id || node.correlation_id !== operation.correlation_id,
  );
  await amendNodes(
    tx,
    changed.map(({ node, operation: { workflow_id, correlation_id, kind }, allocation }) => ({
      node,
      set: { workflow_id, correlation_id },
      fact: {
        at: now,
        layer: 'workflow',
        kind: 'node.bound',
        summary: `${kind} now works on this node`,
        ...(allocation && { allocation_id: allocation.allocation_id }),
      },
    })),
  );
}

export const bindNodeToOperation = (
  tx: Transaction,
  node: NodeRow,
  operation: BoundNode['operation'],
  now: Date,
): Promise<void> => bindNodesToOperations(tx, [{ node, operation }], now);

/**
 * Adds the id of the allocation that holds the node, so that the holder's tenant sees the fact.
 * Facts whose `allocation_id` is an id or null are not changed.
 */
export async function fillAllocationIds(tx: Transaction, facts: KnownIds[]): Promise<void> {
  const incomplete = facts.filter((fact) => fact.allocation_id === undefined);
  if (incomplete.length === 0) return;
  const holders = await findHolders(
    tx,
    incomplete.flatMap((fact) => fact.node_id ?? []),
  );
  for (const fact of incomplete) fact.allocation_id = (fact.node_id && holders.get(fact.node_id)) ?? null;
}
