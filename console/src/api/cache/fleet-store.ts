/**
 * Holds every node of the fleet, or of one pool if the fleet is too large, except retired nodes: a
 * separate query reads those. A changed node is a new object. The map is updated in place and views
 * subscribe to changes, because copying a map of a hundred thousand nodes for each change would be
 * too slow.
 */
import type { Node } from '../../../../src/contract/node.ts';
import { type FleetNode, fleetNodeOf } from './fleet-node.ts';

export class FleetStore {
  readonly #nodes = new Map<string, FleetNode>();
  readonly #watchers = new Set<(changed: readonly FleetNode[]) => void>();

  readonly #pool: string | undefined;

  constructor(nodes: Iterable<FleetNode>, pool?: string) {
    this.#pool = pool;
    for (const node of nodes) this.#nodes.set(node.node_id, node);
  }

  get size(): number {
    return this.#nodes.size;
  }

  get(node_id: string): FleetNode | undefined {
    return this.#nodes.get(node_id);
  }

  values(): Iterable<FleetNode> {
    return this.#nodes.values();
  }

  apply(nodes: readonly Node[]): void {
    const changed = nodes.filter(({ pool }) => this.#pool === undefined || pool === this.#pool).map(fleetNodeOf);
    for (const node of changed) {
      if (node.status === 'retired') this.#nodes.delete(node.node_id);
      else this.#nodes.set(node.node_id, node);
    }
    for (const watcher of this.#watchers) watcher(changed);
  }

  watch(watcher: (changed: readonly FleetNode[]) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}
