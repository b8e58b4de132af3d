/**
 * A node with only the fields that one cell of the console's fleet view needs, made from the
 * columns of a FleetPage or from a full Node. Pure.
 */
import type { FleetPage } from '../../../../src/contract/fleet/fleet.ts';
import type { Node } from '../../../../src/contract/node.ts';

export interface FleetNode extends Pick<Node, 'node_id' | 'name' | 'pool' | 'zone' | 'status' | 'labels'> {
  since_ms: number;
  deadline_ms: number | null;
  held: boolean;
}

export const fleetNodeOf = (node: Node): FleetNode => ({
  node_id: node.node_id,
  name: node.name,
  pool: node.pool,
  zone: node.zone,
  status: node.status,
  labels: node.labels,
  since_ms: Date.parse(node.status_since),
  deadline_ms: node.deadline_at === null ? null : Date.parse(node.deadline_at),
  held: node.held !== null,
});

const entryAt = <T>(values: readonly T[], index: number | undefined): T => {
  const value = index === undefined ? undefined : values[index];
  if (value === undefined) throw new Error('a column of the fleet page is too short, or holds an invalid index');
  return value;
};

export function fleetNodesOf(page: FleetPage): FleetNode[] {
  const held = new Set(page.held);
  return page.node_ids.map((node_id, i) => ({
    node_id,
    name: entryAt(page.names, i),
    pool: entryAt(page.pools, page.pool[i]),
    zone: entryAt(page.zones, page.zone[i]),
    status: entryAt(page.statuses, page.status[i]),
    labels: entryAt(page.labels, page.label[i]),
    since_ms: entryAt(page.status_since_ms, i),
    deadline_ms: entryAt(page.deadline_ms, i),
    held: held.has(i),
  }));
}
