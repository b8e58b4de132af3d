/**
 * Every living node, changed in place. A fleet of fifty thousand is too large to be copied for each change, so whoever shows
 * it watches what changed instead of comparing values. Retired nodes leave it; they are read elsewhere, when asked for.
 */
import type { Node } from '../../../src/contract/node.ts';

export class FleetStore {
  readonly #nodes = new Map<string, Node>();
  readonly #watchers = new Set<(changed: readonly Node[]) => void>();

  constructor(nodes: Iterable<Node>) {
    for (const node of nodes) this.#nodes.set(node.node_id, node);
  }

  get size(): number {
    return this.#nodes.size;
  }

  get(node_id: string): Node | undefined {
    return this.#nodes.get(node_id);
  }

  values(): Iterable<Node> {
    return this.#nodes.values();
  }

  apply(changed: readonly Node[]): void {
    for (const node of changed) {
      if (node.status === 'retired') this.#nodes.delete(node.node_id);
      else this.#nodes.set(node.node_id, node);
    }
    for (const watcher of this.#watchers) watcher(changed);
  }

  watch(watcher: (changed: readonly Node[]) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}
