/** Filters, groups and counts of the fleet page. Pure. */
import { type NodeStatus, nodeStatusNames } from '../../../../src/lifecycle/model/states.ts';
import type { FleetNode } from '../../api/cache/fleet-node.ts';

export interface FleetFilter {
  q: string | undefined;
  pool: string | undefined;
  statuses: ReadonlySet<NodeStatus>;
}

export type GroupBy = 'pool' | 'zone';

export const groupOf = (node: FleetNode, by: GroupBy): string => (by === 'pool' ? node.pool : (node.zone ?? 'no zone'));

/** A search tests the same node again with every letter. */
const searchedWords = new WeakMap<FleetNode, string>();

function searched(node: FleetNode): string {
  const known = searchedWords.get(node);
  if (known !== undefined) return known;
  const labels = Object.entries(node.labels).map(([key, value]) => `${key}=${value}`);
  const words = [node.name, node.node_id, node.pool, node.zone, ...labels].join(' ').toLowerCase();
  searchedWords.set(node, words);
  return words;
}

export const wordsOf = (q: string | undefined): string[] => q?.toLowerCase().split(/\s+/).filter(Boolean) ?? [];

/**
 * Everything but the status, whose counts become the status filter. Retired nodes count only when
 * shown.
 */
export const isMatching = (node: FleetNode, { pool, statuses }: FleetFilter, words: readonly string[]): boolean =>
  (node.status !== 'retired' || statuses.has('retired')) &&
  (pool === undefined || node.pool === pool) &&
  words.every((word) => searched(node).includes(word));

export type StatusCounts = Partial<Record<NodeStatus, number>>;

/** Adds to a count and drops it at zero. */
export function count(counts: StatusCounts, status: NodeStatus, by: 1 | -1): void {
  const next = (counts[status] ?? 0) + by;
  if (next === 0) delete counts[status];
  else counts[status] = next;
}

/** `12 ready, 1 failed`, in the declared order; for summaries and screen readers. */
export const countWords = (counts: StatusCounts): string =>
  nodeStatusNames
    .filter((status) => counts[status])
    .map((status) => `${counts[status]} ${status}`)
    .join(', ');
