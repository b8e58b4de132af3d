/** What the tables of actions look at, read from the store. */
import type { Node } from '../contract/node.ts';
import type { ActionSubject } from '../lifecycle/actions.ts';
import type { AllocationSubject } from '../lifecycle/allocation-actions.ts';
import { allocationRow } from '../store/allocations.ts';
import type { Queryable } from '../store/database.ts';
import { readNode } from '../store/nodes.ts';
import { driverOfPool } from '../store/pools.ts';

export async function nodeSubject(db: Queryable, node: Node): Promise<ActionSubject> {
  const holder = node.allocation_id ? await allocationRow(db, node.allocation_id) : undefined;
  return { ...node, allocation_status: holder?.status ?? null, external: await isExternal(db, node) };
}

const isExternal = async (db: Queryable, { pool }: Node) => (await driverOfPool(db, pool)) === 'external';

export interface AskedAllocation extends Pick<AllocationSubject, 'status' | 'deadline_at' | 'node_id'> {
  allocation_id: string;
}

/** The machine counts only while this allocation is the one that holds it: a former one may serve another tenant by now. */
export async function allocationSubject(db: Queryable, allocation: AskedAllocation): Promise<AllocationSubject> {
  const { allocation_id, node_id, status, deadline_at } = allocation;
  const node = node_id ? await readNode(db, node_id) : undefined;
  if (node?.allocation_id !== allocation_id) return { status, deadline_at, node_id, node: null };
  const own = { ...node, allocation_status: status, external: await isExternal(db, node) };
  return { status, deadline_at, node_id, node: own };
}
