/** Which nodes the fleet page shows, in which groups. Pure, so that a canvas can draw what a list draws today. */
import type { Node } from '../../src/contract/node.ts';
import { type NodeStatus, nodeStatusNames } from '../../src/lifecycle/states.ts';

export interface FleetFilter {
  q: string | undefined;
  pool: string | undefined;
  statuses: ReadonlySet<NodeStatus>;
}

const searched = (node: Node): string =>
  [
    node.name,
    node.node_id,
    node.node_instance_id,
    node.allocation_id,
    node.pool,
    node.zone,
    ...Object.entries(node.labels).map(([key, value]) => `${key}=${value}`),
  ]
    .join(' ')
    .toLowerCase();

/** What matches all but the status; counted, it becomes the status filter. Retired nodes count only when asked for. */
export function matching(nodes: Iterable<Node>, { q, pool, statuses }: FleetFilter): Node[] {
  const words = q?.toLowerCase().split(/\s+/).filter(Boolean) ?? [];
  return [...nodes].filter(
    (node) =>
      (node.status !== 'retired' || statuses.has('retired')) &&
      (pool === undefined || node.pool === pool) &&
      words.every((word) => searched(node).includes(word)),
  );
}

export const withStatus = (nodes: Node[], statuses: ReadonlySet<NodeStatus>): Node[] =>
  statuses.size === 0 ? nodes : nodes.filter((node) => statuses.has(node.status));

export function countByStatus(nodes: Node[]): Partial<Record<NodeStatus, number>> {
  const counts: Partial<Record<NodeStatus, number>> = {};
  for (const { status } of nodes) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

export interface FleetGroup {
  name: string;
  nodes: Node[];
}

/** Oldest first, so that a cell keeps its place as the fleet grows. */
export function groupByPool(nodes: Node[]): FleetGroup[] {
  const groups = Map.groupBy(nodes, (node) => node.pool);
  return [...groups]
    .map(([name, members]) => ({ name, nodes: members.toSorted((a, b) => (a.node_id < b.node_id ? -1 : 1)) }))
    .toSorted((a, b) => a.name.localeCompare(b.name));
}

/** `12 ready, 1 failed`, worst last as declared; for summaries and for those who do not see the cells. */
export const countWords = (counts: Partial<Record<NodeStatus, number>>): string =>
  nodeStatusNames
    .filter((status) => counts[status])
    .map((status) => `${counts[status]} ${status}`)
    .join(', ');
