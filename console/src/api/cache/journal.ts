/**
 * Keeps the latest changes from the stream. A reply can be older than a change that arrived while
 * the request ran. Each read therefore marks its start here and replays the changes since then.
 */
import type { Allocation } from '../../../../src/contract/allocation.ts';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import type { Node } from '../../../../src/contract/node.ts';
import type { Operation } from '../../../../src/contract/operation.ts';

interface Values {
  node: Node;
  allocation: Allocation;
  operation: Operation;
  evidence: Evidence;
}
export type Topic = keyof Values;
export type ValueOf<T extends Topic> = Values[T];
export type Change = { [T in Topic]: { topic: T; value: Values[T] } }[Topic];

const minKept = 5000;

export class Journal {
  #changes: Change[] = [];
  #dropped = 0;

  add(changes: Change[]): void {
    this.#changes.push(...changes);
    const excess = this.#changes.length - 2 * minKept;
    // Drops half of the changes at once, because each cut copies the remaining ones.
    if (excess < 0) return;
    this.#changes = this.#changes.slice(-minKept);
    this.#dropped += minKept + excess;
  }

  mark(): number {
    return this.#dropped + this.#changes.length;
  }

  since<T extends Topic>(mark: number, topic: T): ValueOf<T>[] {
    const laterChanges = this.#changes.slice(Math.max(0, mark - this.#dropped));
    return laterChanges.filter((change) => change.topic === topic).map((change) => change.value as Values[T]);
  }
}

export const journal = new Journal();
