/**
 * Applies the proof that an instance is gone, in the caller's transaction: `settleProvenResidue`
 * settles its open residue, and `retireProvenGone` retires its quarantined node.
 */
import type { NodeId, NodeInstanceId, WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { DriverProof, ProofKind } from '../../drivers/driver.ts';
import { fenceInstance } from '../../store/agents/instances.ts';
import { hasOtherWork } from '../../store/history/proven-gone-nodes.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { settleResidue } from '../../store/rows/residue.ts';
import { transition } from '../../store/transitions/node-transition.ts';
import { requireMoved } from '../../store/transitions/transition-rules.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';
import { proofSummary } from './proof.ts';

export async function settleProvenResidue(
  tx: Transaction,
  { node_instance_id }: Pick<Subject, 'node_instance_id'>,
  proof: DriverProof | undefined,
  { workflow_id, actor }: Pick<OperationRow, 'workflow_id' | 'actor'>,
  at: Date,
): Promise<void> {
  if (!proof) return;
  const settlement = { status: 'gone' as const, seen: proofSummary(proof), proof: { ...proof } };
  await settleResidue(tx, { node_instance_id }, settlement, { layer: 'workflow', actor, workflow_id }, at);
}

interface ProvenGone {
  node_id: NodeId | null;
  node_instance_id: NodeInstanceId | null;
  proof: ProofKind;
  reason: string;
  actor?: Actor | null;
  /** The operation that found the proof. Null if a rule or a person retires the node. */
  workflow_id: WorkflowId | null;
}

/**
 * Retires a quarantined node whose machine is gone. Returns false if the node has another status or
 * instance, or if another operation works on it and will decide.
 */
export async function retireProvenGone(
  tx: Transaction,
  services: Pick<OperationServices, 'environment'>,
  { node_id, node_instance_id, proof, reason, actor = null, workflow_id }: ProvenGone,
  at: Date,
): Promise<boolean> {
  if (proof === 'clean' || !node_id || !node_instance_id) return false;
  const node = await lockNode(tx, node_id);
  if (node?.status !== 'quarantined' || node.node_instance_id !== node_instance_id) return false;
  if (await hasOtherWork(tx, node_id, workflow_id)) return false;
  const ids = { correlation_id: node.correlation_id, workflow_id };
  const move = {
    node_id,
    node_instance_id,
    to: 'retired',
    by: 'proof',
    reason,
    actor,
    data: { proof },
    ...ids,
  } as const;
  requireMoved(await transition(tx, [move], at, services.environment));
  await fenceInstance(tx, node_instance_id, { ...ids, reason: 'the machine is proven gone', revoke: true }, at);
  return true;
}
