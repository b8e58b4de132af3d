/** Reads the facts by which the action tables decide which actions are open. */
import type { Node } from '../../contract/node.ts';
import type { ActionSubject } from '../../lifecycle/actions/actions.ts';
import type { AllocationSubject } from '../../lifecycle/actions/allocation-actions.ts';
import { reusesNodes } from '../../lifecycle/model/reuse.ts';
import type { AllocationStatus } from '../../lifecycle/model/states.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { instanceStandings } from '../../store/agents/instances.ts';
import { teardownsUnderWay } from '../../store/operations/open-operations.ts';
import { type Queryable, readAll } from '../../store/pg/database.ts';
import { statusesOf } from '../../store/rows/allocations.ts';
import { readNode } from '../../store/rows/nodes.ts';
import { currentDocuments } from '../../store/rows/pools.ts';

/** Uses a fixed number of statements, however many nodes there are. */
export async function nodeSubjects(db: Queryable, nodes: readonly Node[]): Promise<ActionSubject[]> {
  const held = nodes.flatMap(({ allocation_id }) => allocation_id ?? []);
  const [holders, circumstances] = await readAll(db, [() => statusesOf(db, held), () => circumstancesOf(db, nodes)]);
  return nodes.map((node) => ({
    ...node,
    ...circumstances(node),
    allocation_status: (node.allocation_id && holders.get(node.allocation_id)) || null,
  }));
}

/** `allocation_status` is the status of the node's holder. */
export async function nodeSubject(
  db: Queryable,
  node: Node,
  allocation_status: AllocationStatus | null,
): Promise<ActionSubject> {
  return { ...node, ...(await circumstancesOf(db, [node]))(node), allocation_status };
}

async function circumstancesOf(db: Queryable, nodes: readonly Node[]) {
  const ids = nodes.map(({ node_id }) => node_id);
  const instances = nodes.flatMap(({ node_instance_id }) => node_instance_id ?? []);
  const names = nodes.map(({ pool }) => pool);
  const [works, voices, pools] = await readAll(db, [
    () => teardownsUnderWay(db, ids),
    () => instanceStandings(db, instances),
    () => currentDocuments(db, names),
  ]);
  return ({ node_id, node_instance_id, pool }: Node) => {
    const document = pools.get(pool);
    const voice = node_instance_id === null ? undefined : voices.get(node_instance_id);
    return {
      instance_fenced: voice === undefined ? 'it has no instance' : voice.fenced,
      agentless: voice?.agentless ?? false,
      key_unproven: voice?.key_unproven ?? false,
      taken_down_by: works.get(node_id) ?? null,
      external: document?.driver === 'external',
      ...(document && { reuse: reusesNodes(document) }),
    };
  };
}

export interface AllocationFacts extends Pick<AllocationSubject, 'status' | 'deadline_at' | 'node_id'> {
  allocation_id: string;
}

/**
 * Includes the node only if this allocation holds it. A former machine may serve another tenant by
 * now.
 */
export async function allocationSubject(db: Queryable, allocation: AllocationFacts): Promise<AllocationSubject> {
  const { allocation_id, node_id, status, deadline_at } = allocation;
  const node = node_id ? await readNode(db, node_id, wholeFleet) : undefined;
  if (node?.allocation_id !== allocation_id) return { status, deadline_at, node_id, node: null };
  return { status, deadline_at, node_id, node: await nodeSubject(db, node, status) };
}
