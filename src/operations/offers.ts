/** What the tables of actions look at, read from the store. */
import type { Node } from '../contract/node.ts';
import type { ActionSubject } from '../lifecycle/actions.ts';
import type { AllocationSubject } from '../lifecycle/allocation-actions.ts';
import { allocationRow } from '../store/allocations.ts';
import type { Queryable } from '../store/database.ts';
import { instanceRow } from '../store/instances.ts';
import { readNode } from '../store/nodes.ts';
import { openTakeDownsOf } from '../store/operations.ts';
import { driverOfPool } from '../store/pools.ts';

export async function nodeSubject(db: Queryable, node: Node): Promise<ActionSubject> {
  const holder = node.allocation_id ? await allocationRow(db, node.allocation_id) : undefined;
  return { ...node, ...(await circumstancesOf(db, node)), allocation_status: holder?.status ?? null };
}

async function circumstancesOf(db: Queryable, { pool, node_id, node_instance_id }: Node) {
  const [work] = await openTakeDownsOf(db, node_id);
  const instance = node_instance_id ? await instanceRow(db, node_instance_id) : undefined;
  const instance_fenced = instance && !instance.fenced_at ? null : (instance?.fence_reason ?? 'it has no instance');
  return {
    instance_fenced,
    taken_down_by: work?.workflow_id ?? null,
    external: (await driverOfPool(db, pool)) === 'external',
  };
}

export interface AskedAllocation extends Pick<AllocationSubject, 'status' | 'deadline_at' | 'node_id'> {
  allocation_id: string;
}

/** The machine counts only while this allocation is the one that holds it: a former one may serve another tenant by now. */
export async function allocationSubject(db: Queryable, allocation: AskedAllocation): Promise<AllocationSubject> {
  const { allocation_id, node_id, status, deadline_at } = allocation;
  const node = node_id ? await readNode(db, node_id) : undefined;
  if (node?.allocation_id !== allocation_id) return { status, deadline_at, node_id, node: null };
  const own = { ...node, ...(await circumstancesOf(db, node)), allocation_status: status };
  return { status, deadline_at, node_id, node: own };
}
