/**
 * Repairs rows that differ from their evidence. `restoreRow` makes the row equal to its evidence.
 * `restateRow` records the row as evidence. The transition table does not apply, because nothing
 * new is decided about the machine.
 */
import type { Actor } from '../../contract/evidence/evidence.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { type ComparedTable, compareAllocation, compareNode, type RowSides } from '../history/row-comparison.ts';
import type { Transaction } from '../pg/database.ts';
import { type AllocationRow, lockAllocation } from '../rows/allocations.ts';
import type { Side } from '../rows/findings.ts';
import { lockNode, type NodeRow } from '../rows/nodes.ts';
import { writeChanged } from './transition-rules.ts';

export interface RestoreRequest {
  table: ComparedTable;
  id: string;
  reason: string;
  actor: Actor | null;
}

interface LockedRow {
  row: NodeRow | AllocationRow;
  difference: RowSides | undefined;
  key: 'node_id' | 'allocation_id';
  ids: Pick<Fact, 'node_id' | 'node_instance_id' | 'allocation_id' | 'correlation_id' | 'workflow_id'>;
}

async function lockAndCompare(tx: Transaction, { table, id }: RestoreRequest): Promise<LockedRow | undefined> {
  if (table === 'nodes') {
    const row = await lockNode(tx, id);
    if (!row) return undefined;
    const { node_id, node_instance_id, correlation_id, workflow_id } = row;
    const ids = { node_id, node_instance_id, correlation_id, workflow_id };
    return { row, difference: await compareNode(tx, row), key: 'node_id', ids };
  }
  const row = await lockAllocation(tx, id);
  if (!row) return undefined;
  const { node_id, allocation_id, correlation_id, workflow_id } = row;
  const ids = { node_id, allocation_id, correlation_id, workflow_id };
  return { row, difference: await compareAllocation(tx, row), key: 'allocation_id', ids };
}

const nouns = { nodes: 'node', allocations: 'allocation' } as const satisfies Record<ComparedTable, string>;

/** Returns the restored columns, or undefined if row and evidence agree. */
export async function restoreRow(tx: Transaction, request: RestoreRequest, now: Date): Promise<Side | undefined> {
  const locked = await lockAndCompare(tx, request);
  if (!locked?.difference) return undefined;
  const { difference, key, ids } = locked;
  const set = difference.theirs;
  await writeChanged(tx, request.table, key, new Map([[request.id, set]]));
  await recordEvidence(tx, [
    {
      at: now,
      layer: request.actor ? 'operator' : 'rule',
      kind: `${nouns[request.table]}.restored`,
      summary: `the row was restored from its evidence: ${request.reason}`,
      data: { was: difference.ours, reason: request.reason, set: { [key]: request.id, ...set } },
      actor: request.actor,
      ...ids,
    },
  ]);
  return set;
}

/** Returns the columns that differed from the evidence, or undefined if they agree. */
export async function restateRow(tx: Transaction, request: RestoreRequest, now: Date): Promise<Side | undefined> {
  const locked = await lockAndCompare(tx, request);
  if (!locked?.difference) return undefined;
  const { difference, row, ids } = locked;
  await recordEvidence(tx, [
    {
      at: now,
      layer: request.actor ? 'operator' : 'rule',
      kind: `${nouns[request.table]}.restated`,
      summary: `the row was accepted as it is: ${request.reason}`,
      data: { was: difference.theirs, reason: request.reason, set: row },
      actor: request.actor,
      ...ids,
    },
  ]);
  return difference.ours;
}
