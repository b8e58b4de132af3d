/**
 * Adds a cause to a verdict that was reached by time alone. The verdict becomes certain, so screens
 * no longer say that the machine may come back. No status changes.
 */
import type { NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Verdict } from '../../contract/node.ts';
import { timeOnlyRules } from '../../lifecycle/deadlines/rescue-window.ts';
import type { Transaction } from '../pg/database.ts';
import { findHolders, lockAllocation } from '../rows/allocations.ts';
import { lockNode } from '../rows/nodes.ts';
import { recordAllocationCause } from './amend-allocation.ts';
import { amendNode } from './amend-node.ts';

export interface LateCause {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  code: string;
  /** Describes the cause for people. */
  message: string;
}

const addCause = (verdict: Verdict, cause: string): Verdict => ({
  ...verdict,
  reason: `${cause}; found out after it was given up: ${verdict.reason}`,
  certain: true,
});

/** Returns whether the cause was recorded, which happens at most once per instance. */
export async function attachLateCause(tx: Transaction, cause: LateCause, now: Date): Promise<boolean> {
  const node = await lockNode(tx, cause.node_id);
  if (node?.status !== 'failed' || node.node_instance_id !== cause.node_instance_id) return false;
  if (!node.verdict || node.verdict.certain || !timeOnlyRules.includes(node.verdict.rule)) return false;
  const set = { verdict: addCause(node.verdict, cause.message), observed_state: 'exited', observed_at: now };
  const data = { code: cause.code, certain: true };
  const fact = { at: now, layer: 'provider', kind: 'node.explained', summary: cause.message, data } as const;
  await amendNode(tx, node, set, fact);
  const holder = (await findHolders(tx, [node.node_id])).get(node.node_id);
  const allocation = holder && (await lockAllocation(tx, holder));
  if (!allocation?.verdict || allocation.status !== 'failed') return true;
  await recordAllocationCause(tx, allocation, addCause(allocation.verdict, cause.message), now);
  return true;
}
