/**
 * The groups of cells that the fleet page draws, each in order of creation, and their counts.
 * Changes update them in place, so a change of status costs the same in a fleet of fifty and of
 * fifty thousand. Pure.
 */
import type { NodeStatus } from '../../../../src/lifecycle/model/states.ts';
import type { FleetNode } from '../../api/cache/fleet-node.ts';
import {
  changeCount,
  type FleetFilter,
  type GroupBy,
  groupOf,
  isMatching,
  type StatusCounts,
  wordsOf,
} from './filter.ts';

const deadlineOf = ({ deadline_ms }: FleetNode): number => deadline_ms ?? Number.POSITIVE_INFINITY;

export class CellGroup {
  readonly name: string;
  readonly counts: StatusCounts = {};
  readonly #nodes: FleetNode[] = [];
  readonly #deadlines: number[] = [];
  /** Cells to redraw; null means all. */
  #dirty: Set<number> | null = null;

  constructor(name: string) {
    this.name = name;
  }

  get size(): number {
    return this.#nodes.length;
  }

  get nodes(): readonly FleetNode[] {
    return this.#nodes;
  }

  isOverdue(at: number, nowMs: number): boolean {
    return (this.#deadlines[at] ?? Number.POSITIVE_INFINITY) < nowMs;
  }

  /** The index of a node, or the index where it would be inserted. */
  placeOf(node_id: string): number {
    let low = 0;
    let high = this.#nodes.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#nodes[middle]?.node_id ?? '') < node_id) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Adds nodes in any order. Call it only before the first draw. */
  fill(nodes: FleetNode[]): void {
    nodes.sort((a, b) => (a.node_id < b.node_id ? -1 : 1));
    for (const node of nodes) {
      this.#nodes.push(node);
      this.#deadlines.push(deadlineOf(node));
      changeCount(this.counts, node.status, 1);
    }
  }

  insert(node: FleetNode): void {
    const at = this.placeOf(node.node_id);
    this.#nodes.splice(at, 0, node);
    this.#deadlines.splice(at, 0, deadlineOf(node));
    changeCount(this.counts, node.status, 1);
    this.#dirty = null;
  }

  replace(node: FleetNode): void {
    const at = this.placeOf(node.node_id);
    const previous = this.#nodes[at];
    if (previous) changeCount(this.counts, previous.status, -1);
    changeCount(this.counts, node.status, 1);
    this.#nodes[at] = node;
    this.#deadlines[at] = deadlineOf(node);
    this.#dirty?.add(at);
  }

  remove(node: FleetNode): void {
    const at = this.placeOf(node.node_id);
    const [previous] = this.#nodes.splice(at, 1);
    this.#deadlines.splice(at, 1);
    if (previous) changeCount(this.counts, previous.status, -1);
    this.#dirty = null;
  }

  /** Marks the cells whose deadline passed between two moments for redrawing. */
  passDeadlines(sinceMs: number, nowMs: number): void {
    const deadlines = this.#deadlines;
    for (let at = 0; at < deadlines.length; at++) {
      const deadline = deadlines[at] ?? Number.POSITIVE_INFINITY;
      if (deadline >= sinceMs && deadline < nowMs) this.#dirty?.add(at);
    }
  }

  /** Returns the cells to redraw, or null for all, and clears the list. */
  takeDirty(): ReadonlySet<number> | null {
    const dirty = this.#dirty;
    this.#dirty = new Set();
    return dirty;
  }

  redrawAll(): void {
    this.#dirty = null;
  }
}

export class FleetView {
  /** Counts of all matching nodes, regardless of the chosen statuses. */
  readonly counts: StatusCounts = {};
  #matched = 0;
  readonly #filter: FleetFilter;
  readonly #words: readonly string[];
  readonly #groupBy: GroupBy;
  readonly #groups = new Map<string, CellGroup>();
  /** The status and group under which each matching node was last counted. */
  readonly #known = new Map<string, { status: NodeStatus; group: CellGroup | null }>();

  constructor(nodes: Iterable<FleetNode>, filter: FleetFilter, groupBy: GroupBy) {
    this.#filter = filter;
    this.#words = wordsOf(filter.q);
    this.#groupBy = groupBy;
    const members = new Map<string, FleetNode[]>();
    for (const node of nodes) {
      if (!isMatching(node, filter, this.#words)) continue;
      const name = groupOf(node, groupBy);
      const group = this.#isShown(node) ? this.#group(name) : null;
      this.#remember(node, group);
      if (!group) continue;
      const known = members.get(name);
      if (known) known.push(node);
      else members.set(name, [node]);
    }
    for (const [name, nodes] of members) this.#group(name).fill(nodes);
  }

  get matched(): number {
    return this.#matched;
  }

  get shown(): number {
    let shown = 0;
    for (const group of this.#groups.values()) shown += group.size;
    return shown;
  }

  get groups(): CellGroup[] {
    return [...this.#groups.values()].filter(({ size }) => size > 0).sort((a, b) => a.name.localeCompare(b.name));
  }

  apply(changed: readonly FleetNode[]): void {
    for (const node of changed) this.#applyOne(node);
  }

  #applyOne(node: FleetNode): void {
    const previous = this.#known.get(node.node_id);
    const matches = isMatching(node, this.#filter, this.#words);
    const group = matches && this.#isShown(node) ? this.#group(groupOf(node, this.#groupBy)) : null;
    if (previous) {
      changeCount(this.counts, previous.status, -1);
      this.#matched--;
      this.#known.delete(node.node_id);
      if (previous.group && previous.group !== group) previous.group.remove(node);
    }
    if (!matches) return;
    this.#remember(node, group);
    if (!group) return;
    if (previous?.group === group) group.replace(node);
    else group.insert(node);
  }

  #remember(node: FleetNode, group: CellGroup | null): void {
    changeCount(this.counts, node.status, 1);
    this.#matched++;
    this.#known.set(node.node_id, { status: node.status, group });
  }

  #isShown({ status }: FleetNode): boolean {
    return this.#filter.statuses.size === 0 || this.#filter.statuses.has(status);
  }

  #group(name: string): CellGroup {
    const known = this.#groups.get(name);
    if (known) return known;
    const group = new CellGroup(name);
    this.#groups.set(name, group);
    return group;
  }
}
