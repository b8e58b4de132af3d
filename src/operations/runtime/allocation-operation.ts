/** An operation's own row, where the operation is one on an allocation, and the ids that it hands on. */
import type { OperationContext } from '../../engine/engine.ts';
import { everHadMachine } from '../../store/operations/open-operations.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import { operationRow } from '../../store/operations/operations.ts';
import type { Transaction } from '../../store/pg/database.ts';
import { steadily } from './retry-while-unavailable.ts';
import type { OperationServices } from './services.ts';

export async function allocationOperation(
  services: OperationServices,
  context: OperationContext,
): Promise<OperationRow & { allocation_id: NonNullable<OperationRow['allocation_id']> }> {
  const row = await steadily(services.clock, () => operationRow(services.db, context.workflow_id));
  if (!row?.allocation_id) throw new Error(`operation ${context.workflow_id} has no allocation`);
  return { ...row, allocation_id: row.allocation_id };
}

export const idsOf = ({ workflow_id, correlation_id, allocation_id }: OperationRow) => ({
  workflow_id,
  correlation_id,
  allocation_id,
});

/** Why a release ends without a machine to take down: it never had one, or what it had has gone before. */
export const nothingToTakeDown = async (
  tx: Transaction,
  { allocation_id }: Pick<OperationRow, 'allocation_id'>,
): Promise<string> =>
  allocation_id && (await everHadMachine(tx, allocation_id))
    ? 'its machine had gone before, and nothing of it was left to take down'
    : 'nothing had been brought up';
