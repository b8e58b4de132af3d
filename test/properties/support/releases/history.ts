/**
 * An in-memory model of a pool with one slot, its tenant, its machine and their operations. The
 * model uses the product's own tables of transitions and actions. Operations advance stage by
 * stage, so that any event can happen between any two stages of a release.
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

const teardownStages = ['freeze', 'drain', 'stop', 'clean', 'prove'] as const;
const bringUpStages = ['launch', 'register', 'start'] as const;
export const stages = {
  provision: ['assign', ...bringUpStages],
  release: ['fence', ...teardownStages, 'free'],
  force: ['stop-others', 'bar', 'prove', 'settle'],
  retire: [...teardownStages, 'retire'],
  reimage: [...teardownStages, 'renew', ...bringUpStages],
  're-enroll': ['clean', 'prove', 'replace', ...bringUpStages],
} as const satisfies Record<WorkKind, readonly string[]>;

/** A running operation. */
export interface Work {
  kind: WorkKind;
  stage: number;
  retry?: boolean;
  /** Whether the machine is kept after the release; decided once, when the teardown begins. */
  reuse?: boolean;
  proof?: 'absent' | 'clean' | null;
}

export interface ModelNode {
  key: number;
  status: NodeStatus;
  machine: 'none' | 'up' | 'gone';
  /** Whether the machine of the node's current instance was proven gone. */
  proven: boolean;
  registered: boolean;
  fenced: boolean;
  /** Whether a forced release left the machine without a proof. */
  residue: boolean;
  drain_then: 'hold' | 'retire' | null;
  work: Work | null;
  /** The latest operation that took over the node. An earlier operation stops. */
  owner: Work | null;
}

export interface ModelAllocation {
  key: number;
  status: AllocationStatus;
  node: number | null;
  work: Work | null;
  /** Whether the allocation failed and can no longer be rescued. */
  isRescueOver: boolean;
}

/** A requested transition and its outcome. */
export interface Call {
  entity: 'node' | 'allocation';
  key: number;
  to: string;
  by: Cause;
  moved: boolean;
  /** The node that an allocation is assigned. */
  node?: number;
  /** The statuses of all nodes and allocations after the call. */
  statusesAfter: string;
}

export class UnexpectedRefusal extends Error {}

export interface Rules {
  nodeEdges: readonly Edge<NodeStatus>[];
  reuse: boolean;
}

const releaseStatuses: readonly AllocationStatus[] = ['releasing', 'release_failed'];
const holdingStatuses: readonly AllocationStatus[] = ['provisioning', 'active', ...releaseStatuses];

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
  countLive(): number {
    return this.nodes.filter(({ status }) => status !== 'retired').length;
  }
  holderOf({ key }: ModelNode): ModelAllocation | undefined {
    const candidates = this.allocations.filter(({ node }) => node === key);
    return (
      candidates.find(({ status }) => holdingStatuses.includes(status)) ??
      candidates.findLast(({ status, isRescueOver }) => status === 'failed' && !isRescueOver)
    );
  }
  nodeOf({ node }: ModelAllocation): ModelNode | undefined {
    return this.nodes.find(({ key }) => key === node);
  }
  isOwnedByRelease(node: ModelNode): boolean {
    return releaseStatuses.includes(this.holderOf(node)?.status ?? 'released');
  }

  /** Lists every node and allocation with its status, for example `n0:ready a0:active`. */
  statuses(): string {
    const describe = (prefix: string) => (row: { key: number; status: string }) => `${prefix}${row.key}:${row.status}`;
    return [...this.nodes.map(describe('n')), ...this.allocations.map(describe('a'))].join(' ');
  }

  #record(call: Omit<Call, 'statusesAfter'>): boolean {
    this.calls.push({ ...call, statusesAfter: this.statuses() });
    return call.moved;
  }

  moveNode(node: ModelNode, to: NodeStatus, by: Cause): boolean {
    const from = node.status;
    const edge = from !== to && findEdge(this.rules.nodeEdges, from, to, by);
    if (edge) {
      node.status = to;
      const holder = this.holderOf(node);
      const pair = holder && pairedWith(from, to).find((edge) => edge.from === holder.status);
      if (pair && holder) holder.status = pair.to;
      if (to === 'failed' || to === 'quarantined') this.#endBringUp(node, holder);
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

  /** Stops an operation after a refused transition, like `requireMoved` of the product. */
  requireMoved(moved: boolean, isAlreadyThere: boolean, step: string): void {
    if (!moved && !isAlreadyThere) throw new UnexpectedRefusal(`${step} was refused: ${this.statuses()}`);
  }

  /** Ends the operation that brings up a node when the node fails or is quarantined. */
  #endBringUp(node: ModelNode, holder: ModelAllocation | undefined): void {
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
      owner: null,
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
      isRescueOver: false,
    };
    this.allocations.push(allocation);
    return allocation;
  }

  /** Replaces the node's instance with a new one that has no machine yet. */
  replaceInstance(node: ModelNode): void {
    Object.assign(node, { machine: 'none', proven: false, registered: false, fenced: false, residue: false });
  }

  occupancyOf(node: ModelNode): Occupancy {
    const status = this.holderOf(node)?.status;
    if (status === 'provisioning' || status === 'failed') return 'reserved';
    if (status === 'active') return 'occupied';
    return releaseStatuses.includes(status ?? 'released') || node.residue ? 'cleanup' : 'free';
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
      instance_fenced: node.fenced ? 'fenced' : null,
      taken_down_by: node.work && node.work.kind !== 're-enroll' ? 'wf' : null,
      external: false,
      reuse: this.rules.reuse,
    };
  }

  isAllowedOnNode(action: NodeActionName, node: ModelNode): boolean {
    return node.status !== 'retired' && whyNotOnNode(action, this.subjectOf(node)) === null;
  }

  isAllowedOnAllocation(action: AllocationActionName, allocation: ModelAllocation): boolean {
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

  /** Describes a violation in the current state, or returns null. */
  findViolation(): string | null {
    if (this.countLive() > 1) return `${this.countLive()} machines in a pool with one slot`;
    for (const node of this.nodes) {
      const holders = this.allocations.filter(
        (allocation) => allocation.node === node.key && holdingStatuses.includes(allocation.status),
      );
      if (holders.length > 1) return `${holders.length} allocations hold one machine`;
      if (node.status === 'retired' && node.machine === 'up') return 'a node is retired while its machine runs';
      const serves = node.status === 'ready' && holders.some(({ status }) => status === 'active');
      if (serves && node.proven) return 'a tenant has a machine that is proven gone';
    }
    return null;
  }

  /** Describes a violation in a state in which nothing changes any more, or returns null. */
  findSettledViolation(): string | null {
    for (const node of this.nodes) {
      if (node.proven && node.status !== 'retired') return `node ${node.key} is proven gone and ${node.status}`;
      if (nodeStatuses[node.status].deadline) return `node ${node.key} stays ${node.status}`;
      if (node.work) return `${node.work.kind} of node ${node.key} does not end`;
    }
    for (const { key, status, work, isRescueOver } of this.allocations) {
      if (work) return `${work.kind} of allocation ${key} does not end`;
      if (!['active', 'released'].includes(status) && !(status === 'failed' && isRescueOver))
        return `allocation ${key} stays ${status}`;
    }
    return null;
  }
}
