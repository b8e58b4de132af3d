/** Filters, groups and counts the nodes of the fleet page. Pure. */
import { type NodeStatus, nodeStatusNames } from '../../../../src/lifecycle/model/states.ts';
import type { FleetNode } from '../../api/cache/fleet-node.ts';

export interface FleetFilter {
  q: string | undefined;
  pool: string | undefined;
  statuses: ReadonlySet<NodeStatus>;
}

export type GroupBy = 'pool' | 'zone';

export const groupOf = (node: FleetNode, by: GroupBy): string => (by === 'pool' ? node.pool : (node.zone ?? 'no zone'));

/** Caches the searchable text of a node, because every typed letter tests all nodes again. */
const searchTexts = new WeakMap<FleetNode, string>();

function searchTextOf(node: FleetNode): string {
  const known = searchTexts.get(node);
  if (known !== undefined) return known;
  const labels = Object.entries(node.labels).map(([key, value]) => `${key}=${value}`);
  const words = [node.name, node.node_id, node.pool, node.zone, ...labels].join(' ').toLowerCase();
  searchTexts.set(node, words);
  return words;
}

export const wordsOf = (q: string | undefined): string[] => q?.toLowerCase().split(/\s+/).filter(Boolean) ?? [];

/**
 * Applies every filter except the status, because the status filter shows the counts of the
 * matches. Retired nodes match only if that status is chosen.
 */
export const isMatching = (node: FleetNode, { pool, statuses }: FleetFilter, words: readonly string[]): boolean =>
  (node.status !== 'retired' || statuses.has('retired')) &&
  (pool === undefined || node.pool === pool) &&
  words.every((word) => searchTextOf(node).includes(word));

export type StatusCounts = Partial<Record<NodeStatus, number>>;

/** Changes a count and removes it at zero. */
export function changeCount(counts: StatusCounts, status: NodeStatus, change: 1 | -1): void {
  const next = (counts[status] ?? 0) + change;
  if (next === 0) delete counts[status];
  else counts[status] = next;
}

/** `12 ready, 1 failed`, in the declared order; for summaries and screen readers. */
export const countWords = (counts: StatusCounts): string =>
  nodeStatusNames
    .filter((status) => counts[status])
    .map((status) => `${counts[status]} ${status}`)
    .join(', ');
