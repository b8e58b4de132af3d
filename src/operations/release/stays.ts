/** Where a machine goes that stays and is proven clean: to the free ones, or aside, when somebody drained it or had set it aside before. */
import type { NodeRow } from '../../store/rows/nodes.ts';
import type { NodeMove } from '../../store/transitions/node-move.ts';

export function stays({ node_id, status, drain_then }: NodeRow): NodeMove[] {
  // An operator set it aside while it was cleaned.
  if (status === 'quarantined') return [];
  const reason = 'proven clean; it was to be set aside, and aside it stays';
  return drain_then === 'hold'
    ? [{ node_id, to: 'quarantined', by: 'quarantine', reason }]
    : [{ node_id, to: 'ready', by: 'proof', reason: 'proven clean, free again' }];
}
