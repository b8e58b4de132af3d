/** Records on the row and as evidence what a rule would have done in an observe-only pool. */
import type { WouldHave } from '../../contract/node.ts';
import { isNodeRule } from '../../lifecycle/model/rules.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { observeOnlyPools } from '../rows/pools.ts';
import type { NodeMove } from './node-move.ts';
import { writeRows } from './transition-rules.ts';

type ObservedNode = Pick<NodeRow, 'node_id' | 'status' | 'node_instance_id' | 'correlation_id' | 'workflow_id'>;

interface ObservedMove {
  node: ObservedNode;
  move: NodeMove;
  would_have: WouldHave;
}

export const toObservedMove = (node: ObservedNode, move: NodeMove, now: Date): ObservedMove => ({
  node,
  move,
  would_have: { rule: move.by, to: move.to, reason: move.reason, at: now.toISOString() },
});

/** SQL on `node`: it has a recorded move and its pool is still observe-only. */
export const isRecordedOnly = `(node.would_have is not null and node.pool = any(${observeOnlyPools}))`;

/**
 * Whether this move is already recorded on the row. Moves by rules are never repeated, because
 * sweeps skip recorded nodes in SQL; a machine may repeat the report that causes a move.
 */
export const isRecorded = ({ would_have }: NodeRow, { by, to }: NodeMove): boolean =>
  !isNodeRule(by) && would_have?.rule === by && would_have.to === to;

export async function recordWouldHave(tx: Transaction, observed: ObservedMove[], now: Date): Promise<void> {
  await writeRows(
    tx,
    'nodes',
    'node_id',
    ['would_have'],
    observed.map(({ node, would_have }) => ({ node_id: node.node_id, would_have })),
  );
  await recordEvidence(
    tx,
    observed.map(({ node, move, would_have }) => ({
      at: now,
      layer: 'rule',
      kind: 'node.would_have',
      summary: `would have: ${node.status} → ${move.to} by ${move.by}: ${move.reason}`,
      data: {
        from: node.status,
        to: move.to,
        by: move.by,
        reason: move.reason,
        ...(move.data && { evidence: move.data }),
        set: { node_id: node.node_id, would_have },
      },
      node_id: node.node_id,
      node_instance_id: node.node_instance_id,
      correlation_id: node.correlation_id,
      workflow_id: node.workflow_id,
    })),
  );
}
