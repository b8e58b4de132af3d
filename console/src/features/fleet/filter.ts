/** Which nodes the fleet page shows, in which groups, and what is counted. Pure. */
import { type NodeStatus, nodeStatusNames } from '../../../../src/lifecycle/model/states.ts';
import type { FleetNode } from '../../api/cache/fleet-node.ts';

export interface FleetFilter {
  q: string | undefined;
  pool: string | undefined;
  statuses: ReadonlySet<NodeStatus>;
}

export type GroupBy = 'pool' | 'zone';

export const groupOf = (node: FleetNode, by: GroupBy): string => (by === 'pool' ? node.pool : (node.zone ?? 'no zone'));

/** A search looks at the same words of the same node again with every letter. */
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

/** All but the status; counted, it becomes the status filter. Retired nodes count only when asked for. */
export const isMatching = (node: FleetNode, { pool, statuses }: FleetFilter, words: readonly string[]): boolean =>
  (node.status !== 'retired' || statuses.has('retired')) &&
  (pool === undefined || node.pool === pool) &&
  words.every((word) => searched(node).includes(word));

export type StatusCounts = Partial<Record<NodeStatus, number>>;

/** One less or one more; what nobody has is not listed. */
export function count(counts: StatusCounts, status: NodeStatus, by: 1 | -1): void {
  const next = (counts[status] ?? 0) + by;
  if (next === 0) delete counts[status];
  else counts[status] = next;
}

/** `12 ready, 1 failed`, worst last as declared; for summaries and for those who do not see the cells. */
export const countWords = (counts: StatusCounts): string =>
  nodeStatusNames
    .filter((status) => counts[status])
    .map((status) => `${counts[status]} ${status}`)
    .join(', ');
