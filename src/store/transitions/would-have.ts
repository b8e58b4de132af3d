/** Pools that are only observed: what a rule would have done is told and kept on the row, and nothing else changes. */
import type { WouldHave } from '../../contract/node.ts';
import { isNodeRule } from '../../lifecycle/model/rules.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { observeOnlyPools } from '../rows/pools.ts';
import type { NodeMove } from './node-move.ts';
import { writeRows } from './transition-rules.ts';

type WatchedNode = Pick<NodeRow, 'node_id' | 'status' | 'node_instance_id' | 'correlation_id' | 'workflow_id'>;

interface Watched {
  node: WatchedNode;
  move: NodeMove;
  would_have: WouldHave;
}

export const wouldHave = (node: WatchedNode, move: NodeMove, now: Date): Watched => ({
  node,
  move,
  would_have: { rule: move.by, to: move.to, reason: move.reason, at: now.toISOString() },
});

/** What was only told stays told as long as the pool is observed; once it is not, it is decided. Expects `node`. */
export const isRecordedOnly = `(node.would_have is not null and node.pool = any(${observeOnlyPools}))`;

/** Sweeps ask by themselves for what was not told yet; what a machine says again and again is told when it is news. */
export const isTold = ({ would_have }: NodeRow, { by, to }: NodeMove): boolean =>
  !isNodeRule(by) && would_have?.rule === by && would_have.to === to;

export async function recordWouldHave(tx: Transaction, watched: Watched[], now: Date): Promise<void> {
  await writeRows(
    tx,
    'nodes',
    'node_id',
    ['would_have'],
    watched.map(({ node, would_have }) => ({ node_id: node.node_id, would_have })),
  );
  await recordEvidence(
    tx,
    watched.map(({ node, move, would_have }) => ({
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
