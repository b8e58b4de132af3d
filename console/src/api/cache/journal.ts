/**
 * The last changes that came over the stream. A reply may be older than a change that overtook it,
 * so each read marks its start here and replays the changes since. The cache never falls behind the
 * stream.
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

const kept = 5000;

export class Journal {
  #changes: Change[] = [];
  #dropped = 0;

  add(changes: Change[]): void {
    this.#changes.push(...changes);
    const excess = this.#changes.length - 2 * kept;
    // Drops half at a time: each cut copies the rest.
    if (excess < 0) return;
    this.#changes = this.#changes.slice(-kept);
    this.#dropped += kept + excess;
  }

  mark(): number {
    return this.#dropped + this.#changes.length;
  }

  since<T extends Topic>(mark: number, topic: T): ValueOf<T>[] {
    const later = this.#changes.slice(Math.max(0, mark - this.#dropped));
    return later.filter((change) => change.topic === topic).map((change) => change.value as Values[T]);
  }
}

export const journal = new Journal();
