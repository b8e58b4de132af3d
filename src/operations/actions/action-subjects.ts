/** Reads the facts that the action tables need to decide which actions are available. */
import type { Node } from '../../contract/node.ts';
import type { ActionSubject } from '../../lifecycle/actions/actions.ts';
import type { AllocationSubject } from '../../lifecycle/actions/allocation-actions.ts';
import { reusesNodes } from '../../lifecycle/model/reuse.ts';
import type { AllocationStatus } from '../../lifecycle/model/states.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { readInstanceStandings } from '../../store/agents/instances.ts';
import { findOldestTeardowns } from '../../store/operations/open-operations.ts';
import { type Queryable, readAll } from '../../store/pg/database.ts';
import { readAllocationStatuses } from '../../store/rows/allocations.ts';
import { readNode } from '../../store/rows/nodes.ts';
import { readCurrentDocuments } from '../../store/rows/pools.ts';

/** Uses a fixed number of statements, however many nodes there are. */
export async function readNodeSubjects(db: Queryable, nodes: readonly Node[]): Promise<ActionSubject[]> {
  const allocations = nodes.flatMap(({ allocation_id }) => allocation_id ?? []);
  const [statuses, factsOf] = await readAll(db, [
    () => readAllocationStatuses(db, allocations),
    () => readNodeFacts(db, nodes),
  ]);
  return nodes.map((node) => ({
    ...node,
    ...factsOf(node),
    allocation_status: (node.allocation_id && statuses.get(node.allocation_id)) || null,
  }));
}

/** `allocation_status` is the status of the node's holder. */
export async function readNodeSubject(
  db: Queryable,
  node: Node,
  allocation_status: AllocationStatus | null,
): Promise<ActionSubject> {
  return { ...node, ...(await readNodeFacts(db, [node]))(node), allocation_status };
}

async function readNodeFacts(db: Queryable, nodes: readonly Node[]) {
  const ids = nodes.map(({ node_id }) => node_id);
  const instances = nodes.flatMap(({ node_instance_id }) => node_instance_id ?? []);
  const poolNames = nodes.map(({ pool }) => pool);
  const [teardowns, instanceFacts, pools] = await readAll(db, [
    () => findOldestTeardowns(db, ids),
    () => readInstanceStandings(db, instances),
    () => readCurrentDocuments(db, poolNames),
  ]);
  return ({ node_id, node_instance_id, pool }: Node) => {
    const document = pools.get(pool);
    const instance = node_instance_id === null ? undefined : instanceFacts.get(node_instance_id);
    return {
      instance_fenced: instance === undefined ? 'its record is no longer kept' : instance.fenced,
      agentless: instance?.agentless ?? false,
      key_unproven: instance?.key_unproven ?? false,
      taken_down_by: teardowns.get(node_id) ?? null,
      external: document?.driver === 'external',
      ...(document && { reuse: reusesNodes(document) }),
    };
  };
}

export interface AllocationFacts extends Pick<AllocationSubject, 'status' | 'deadline_at' | 'node_id'> {
  allocation_id: string;
}

/**
 * Includes the node only if this allocation still holds it, because the node may serve another
 * tenant now.
 */
export async function readAllocationSubject(db: Queryable, allocation: AllocationFacts): Promise<AllocationSubject> {
  const { allocation_id, node_id, status, deadline_at } = allocation;
  const node = node_id ? await readNode(db, node_id, wholeFleet) : undefined;
  if (node?.allocation_id !== allocation_id) return { status, deadline_at, node_id, node: null };
  return { status, deadline_at, node_id, node: await readNodeSubject(db, node, status) };
}
