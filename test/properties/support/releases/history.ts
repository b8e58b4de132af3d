/**
 * A model of a pool with one slot, its tenant, its machine and their operations, in memory but with
 * the product's own tables of transitions and actions. Operations advance stage by stage, so that
 * any event can happen between any two stages of a release.
 */
import { type ActionSubject, type NodeActionName, whyNotOnNode } from '../../../../src/lifecycle/actions/actions.ts';
import { type AllocationActionName, whyNotOnAllocation } from '../../../../src/lifecycle/actions/allocation-actions.ts';
import {
  type AllocationStatus,
  allocationStatuses,
  type NodeStatus,
  nodeStatuses,
  type Occupancy,
} from '../../../../src/lifecycle/model/states.ts';
import {
  allocationEdges,
  type Cause,
  type Edge,
  findEdge,
  pairedWith,
} from '../../../../src/lifecycle/model/transitions.ts';

export type WorkKind = 'provision' | 'release' | 'force' | 'retire' | 'reimage' | 're-enroll';

const takingDown = ['freeze', 'drain', 'stop', 'clean', 'prove'] as const;
const bringingUp = ['launch', 'register', 'start'] as const;
export const stages = {
  provision: ['assign', ...bringingUp],
  release: ['fence', ...takingDown, 'free'],
  force: ['stop-others', 'bar', 'prove', 'settle'],
  retire: [...takingDown, 'retire'],
  reimage: [...takingDown, 'renew', ...bringingUp],
  're-enroll': ['clean', 'prove', 'replace', ...bringingUp],
} as const satisfies Record<WorkKind, readonly string[]>;

export interface Work {
  kind: WorkKind;
  stage: number;
  retry?: boolean;
  /** Decided once, when the release begins the teardown. */
  reuse?: boolean;
  proof?: 'absent' | 'clean' | null;
}

export interface ModelNode {
  key: number;
  status: NodeStatus;
  machine: 'none' | 'up' | 'gone';
  /** The machine of its present instance was proven gone. */
  proven: boolean;
  registered: boolean;
  fenced: boolean;
  residue: boolean;
  drain_then: 'hold' | 'retire' | null;
  work: Work | null;
  /** The operation that owns the node; an earlier one stops. */
  bound: Work | null;
}

export interface ModelAllocation {
  key: number;
  status: AllocationStatus;
  node: number | null;
  work: Work | null;
  over: boolean;
}

/** A requested transition and its outcome. */
export interface Call {
  entity: 'node' | 'allocation';
  key: number;
  to: string;
  by: Cause;
  moved: boolean;
  /** For an allocation: the node that it gets. */
  node?: number;
  /** All statuses afterwards. */
  after: string;
}

export class UnexpectedRefusal extends Error {}

export interface Rules {
  nodeEdges: readonly Edge<NodeStatus>[];
  reuse: boolean;
}

const owning: readonly AllocationStatus[] = ['releasing', 'release_failed'];
const holding: readonly AllocationStatus[] = ['provisioning', 'active', ...owning];

export class History {
  readonly nodes: ModelNode[] = [];
  readonly allocations: ModelAllocation[] = [];
  readonly calls: Call[] = [];
  readonly log: string[] = [];
  readonly rules: Rules;

  constructor(rules: Rules) {
    this.rules = rules;
  }

  get node(): ModelNode | undefined {
    return this.nodes.find(({ status }) => status !== 'retired');
  }
  get allocation(): ModelAllocation | undefined {
    return this.allocations.at(-1);
  }
  live(): number {
    return this.nodes.filter(({ status }) => status !== 'retired').length;
  }
  holderOf({ key }: ModelNode): ModelAllocation | undefined {
    const own = this.allocations.filter(({ node }) => node === key);
    return (
      own.find(({ status }) => holding.includes(status)) ??
      own.findLast(({ status, over }) => status === 'failed' && !over)
    );
  }
  nodeOf({ node }: ModelAllocation): ModelNode | undefined {
    return this.nodes.find(({ key }) => key === node);
  }
  isOwned(node: ModelNode): boolean {
    return owning.includes(this.holderOf(node)?.status ?? 'released');
  }

  /** Every node and allocation with its status. */
  statuses(): string {
    const of = (name: string) => (each: { key: number; status: string }) => `${name}${each.key}:${each.status}`;
    return [...this.nodes.map(of('n')), ...this.allocations.map(of('a'))].join(' ');
  }

  #record(call: Omit<Call, 'after'>): boolean {
    this.calls.push({ ...call, after: this.statuses() });
    return call.moved;
  }

  moveNode(node: ModelNode, to: NodeStatus, by: Cause): boolean {
    const from = node.status;
    const edge = from !== to && findEdge(this.rules.nodeEdges, from, to, by);
    if (edge) {
      node.status = to;
      const holder = this.holderOf(node);
      const pair = holder && pairedWith(from, to).find((each) => each.from === holder.status);
      if (pair && holder) holder.status = pair.to;
      if (to === 'failed' || to === 'quarantined') this.#endProvision(node, holder);
      if (to !== 'draining' && to !== 'cleaning') node.drain_then = null;
    }
    return this.#record({ entity: 'node', key: node.key, to, by, moved: Boolean(edge) });
  }

  moveAllocation(allocation: ModelAllocation, to: AllocationStatus, by: Cause, node?: ModelNode): boolean {
    const edge = findEdge(allocationEdges, allocation.status, to, by);
    if (edge) {
      allocation.status = to;
      if (node) allocation.node = node.key;
    }
    return this.#record({
      entity: 'allocation',
      key: allocation.key,
      to,
      by,
      moved: Boolean(edge),
      ...(node && { node: node.key }),
    });
  }

  /** Like `requireMoved`: an operation stops after a refused transition. */
  must(moved: boolean, isThere: boolean, what: string): void {
    if (!moved && !isThere) throw new UnexpectedRefusal(`${what} was refused: ${this.statuses()}`);
  }

  /** A provision ends when its node fails or is quarantined. */
  #endProvision(node: ModelNode, holder: ModelAllocation | undefined): void {
    if (holder?.work?.kind === 'provision') holder.work = null;
    if (
      node.work &&
      node.work.stage >= stages[node.work.kind].indexOf('launch' as never) &&
      node.work.kind !== 'retire'
    )
      node.work = null;
  }

  addNode(): ModelNode {
    const blank = { machine: 'none', proven: false, registered: false, fenced: false, residue: false } as const;
    const node: ModelNode = {
      key: this.nodes.length,
      status: 'provisioning',
      ...blank,
      drain_then: null,
      work: null,
      bound: null,
    };
    this.nodes.push(node);
    return node;
  }

  addAllocation(): ModelAllocation {
    const allocation: ModelAllocation = {
      key: this.allocations.length,
      status: 'requested',
      node: null,
      work: null,
      over: false,
    };
    this.allocations.push(allocation);
    return allocation;
  }

  /** Replaces the instance. */
  renew(node: ModelNode): void {
    Object.assign(node, { machine: 'none', proven: false, registered: false, fenced: false, residue: false });
  }

  occupancyOf(node: ModelNode): Occupancy {
    const status = this.holderOf(node)?.status;
    if (status === 'provisioning' || status === 'failed') return 'reserved';
    if (status === 'active') return 'occupied';
    return owning.includes(status ?? 'released') || node.residue ? 'cleanup' : 'free';
  }

  subjectOf(node: ModelNode): ActionSubject {
    const holder = this.holderOf(node);
    return {
      status: node.status,
      node_instance_id: `inst_${node.key}`,
      occupancy: this.occupancyOf(node),
      allocation_status: holder?.status ?? null,
      deadline_at: nodeStatuses[node.status].deadline ? new Date(0) : null,
      held: null,
      endpoint: null,
      instance_fenced: node.fenced ? 'it was fenced' : null,
      taken_down_by: node.work && node.work.kind !== 're-enroll' ? 'wf' : null,
      external: false,
      reuse: this.rules.reuse,
    };
  }

  isOpenOnNode(action: NodeActionName, node: ModelNode): boolean {
    return node.status !== 'retired' && whyNotOnNode(action, this.subjectOf(node)) === null;
  }

  isOpenOnAllocation(action: AllocationActionName, allocation: ModelAllocation): boolean {
    const node = this.nodeOf(allocation);
    const isHeld = node && node.status !== 'retired' && this.holderOf(node) === allocation;
    const subject = {
      status: allocation.status,
      deadline_at: allocationStatuses[allocation.status].deadline ? new Date(0) : null,
      node_id: allocation.node === null ? null : `node_${allocation.node}`,
      node: isHeld && node ? this.subjectOf(node) : null,
    };
    return whyNotOnAllocation(action, subject) === null;
  }

  /** A violation in the present state, or null. */
  violation(): string | null {
    if (this.live() > 1) return `${this.live()} machines in a pool with one slot`;
    for (const node of this.nodes) {
      const holders = this.allocations.filter((each) => each.node === node.key && holding.includes(each.status));
      if (holders.length > 1) return `${holders.length} allocations hold one machine`;
      if (node.status === 'retired' && node.machine === 'up') return 'a machine that runs is retired';
      const serves = node.status === 'ready' && holders.some(({ status }) => status === 'active');
      if (serves && node.proven) return 'a tenant was given a machine that is proven gone';
    }
    return null;
  }

  /** A violation in a settled state, or null. */
  settledViolation(): string | null {
    for (const node of this.nodes) {
      if (node.proven && node.status !== 'retired') return `node ${node.key} is proven gone and ${node.status}`;
      if (nodeStatuses[node.status].deadline) return `node ${node.key} stays ${node.status}`;
      if (node.work) return `${node.work.kind} of node ${node.key} does not end`;
    }
    for (const { key, status, work, over } of this.allocations) {
      if (work) return `${work.kind} of allocation ${key} does not end`;
      if (!['active', 'released'].includes(status) && !(status === 'failed' && over))
        return `allocation ${key} stays ${status}`;
    }
    return null;
  }
}
