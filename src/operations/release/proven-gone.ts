/** What a proof about an instance ends on the residue ledger: everything of it that is still open, at once, in the transaction that acts on the proof. */
import type { DriverProof } from '../../drivers/driver.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { settleResidue } from '../../store/rows/residue.ts';
import type { Subject } from '../runtime/subject.ts';
import { wordsOf } from './proof.ts';

export async function provenGone(
  tx: Transaction,
  { node_instance_id }: Pick<Subject, 'node_instance_id'>,
  proof: DriverProof | undefined,
  { workflow_id, actor }: Pick<OperationRow, 'workflow_id' | 'actor'>,
  at: Date,
): Promise<void> {
  if (!proof) return;
  const settlement = { status: 'gone' as const, seen: wordsOf(proof), proof: { ...proof } };
  await settleResidue(tx, { node_instance_id }, settlement, { layer: 'workflow', actor, workflow_id }, at);
}
