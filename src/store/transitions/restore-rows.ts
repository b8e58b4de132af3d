/**
 * The door's way for what was written past it. `restore` brings a row to what its evidence says, `restate` makes the row as it
 * stands its evidence. Both are told whole, so that row and projection agree from here on. No edge is asked for: nothing new
 * is decided about the machine, one of two contradicting statements is taken back.
 */
import type { Actor } from '../../contract/evidence/evidence.ts';
import { type Fact, recordEvidence } from '../evidence/evidence.ts';
import { type Compared, type ComparedTable, compareAllocation, compareNode } from '../history/row-comparison.ts';
import type { Transaction } from '../pg/database.ts';
import { type AllocationRow, lockAllocation } from '../rows/allocations.ts';
import type { Side } from '../rows/findings.ts';
import { lockNode, type NodeRow } from '../rows/nodes.ts';
import { writeChanged } from './transition-rules.ts';

export interface Restoring {
  table: ComparedTable;
  id: string;
  reason: string;
  actor: Actor | null;
}

interface Locked {
  row: NodeRow | AllocationRow;
  apart: Compared | undefined;
  key: 'node_id' | 'allocation_id';
  ids: Pick<Fact, 'node_id' | 'node_instance_id' | 'allocation_id' | 'correlation_id' | 'workflow_id'>;
}

async function lock(tx: Transaction, { table, id }: Restoring): Promise<Locked | undefined> {
  if (table === 'nodes') {
    const row = await lockNode(tx, id);
    if (!row) return undefined;
    const { node_id, node_instance_id, correlation_id, workflow_id } = row;
    const ids = { node_id, node_instance_id, correlation_id, workflow_id };
    return { row, apart: await compareNode(tx, row), key: 'node_id', ids };
  }
  const row = await lockAllocation(tx, id);
  if (!row) return undefined;
  const { node_id, allocation_id, correlation_id, workflow_id } = row;
  const ids = { node_id, allocation_id, correlation_id, workflow_id };
  return { row, apart: await compareAllocation(tx, row), key: 'allocation_id', ids };
}

const nouns = { nodes: 'node', allocations: 'allocation' } as const satisfies Record<ComparedTable, string>;

/** Answers what was put back, nothing where row and evidence agree already. */
export async function restoreRow(tx: Transaction, restoring: Restoring, now: Date): Promise<Side | undefined> {
  const locked = await lock(tx, restoring);
  if (!locked?.apart) return undefined;
  const { apart, key, ids } = locked;
  const set = apart.theirs;
  await writeChanged(tx, restoring.table, key, new Map([[restoring.id, set]]));
  await recordEvidence(tx, [
    {
      at: now,
      layer: restoring.actor ? 'operator' : 'rule',
      kind: `${nouns[restoring.table]}.restored`,
      summary: `its row is again what its evidence says: ${restoring.reason}`,
      data: { was: apart.ours, reason: restoring.reason, set: { [key]: restoring.id, ...set } },
      actor: restoring.actor,
      ...ids,
    },
  ]);
  return set;
}

/** Answers what the row says otherwise than its evidence did, nothing where they agree already. */
export async function restateRow(tx: Transaction, restoring: Restoring, now: Date): Promise<Side | undefined> {
  const locked = await lock(tx, restoring);
  if (!locked?.apart) return undefined;
  const { apart, row, ids } = locked;
  await recordEvidence(tx, [
    {
      at: now,
      layer: restoring.actor ? 'operator' : 'rule',
      kind: `${nouns[restoring.table]}.restated`,
      summary: `its row holds as it stands: ${restoring.reason}`,
      data: { was: apart.theirs, reason: restoring.reason, set: row },
      actor: restoring.actor,
      ...ids,
    },
  ]);
  return apart.ours;
}
