/**
 * Every living node, changed in place. Copying a fleet of fifty thousand for each change is too
 * slow, so views subscribe to changes instead of comparing values. Retired nodes leave the store; a
 * separate query reads them. For a fleet too large for one store, it holds one pool.
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
