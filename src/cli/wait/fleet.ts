/** Keeps the fleet that `watch` shows. It is fetched on connect, then updated by events. Pure. */
import type { Allocation } from '../../contract/allocation.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { WireEvent } from '../connection/wire-event.ts';
import { isOver } from '../render/allocations/progress.ts';

export interface Fleet {
  nodes: Map<string, Node>;
  allocations: Map<string, Allocation>;
  operations: Map<string, Operation>;
}

export function fleetOf(nodes: Node[], allocations: Allocation[], operations: Operation[]): Fleet {
  return {
    nodes: new Map(nodes.map((node) => [node.node_id, node])),
    allocations: new Map(allocations.map((allocation) => [allocation.allocation_id, allocation])),
    operations: new Map(operations.map((operation) => [operation.workflow_id, operation])),
  };
}

/** Keeps nodes and allocations that have ended in the table, so that the user sees their end. */
export function applyEvent(fleet: Fleet, event: WireEvent): void {
  if (event.kind === 'node') fleet.nodes.set(event.node.node_id, event.node);
  else if (event.kind === 'allocation') fleet.allocations.set(event.allocation.allocation_id, event.allocation);
  else if (isOver(event.operation.progress)) fleet.operations.delete(event.operation.workflow_id);
  else fleet.operations.set(event.operation.workflow_id, event.operation);
}

/** Nodes that need attention come first, so that a small window shows them. */
const ranks: Record<NodeStatus, number> = {
  quarantined: 0,
  failed: 1,
  offline: 2,
  degraded: 3,
  draining: 4,
  cleaning: 5,
  provisioning: 6,
  starting: 7,
  ready: 8,
  retired: 9,
};

export const isStuckInRelease = (fleet: Fleet, node: Node): boolean =>
  node.allocation_id !== null && fleet.allocations.get(node.allocation_id)?.status === 'release_failed';

const rankOf = (fleet: Fleet, node: Node) =>
  node.held !== null || isStuckInRelease(fleet, node) ? -1 : ranks[node.status];

/** Sorts the newest first within a rank: ids sort by creation time. */
export const nodesInOrder = (fleet: Fleet): Node[] =>
  [...fleet.nodes.values()].sort((a, b) => rankOf(fleet, a) - rankOf(fleet, b) || (a.node_id < b.node_id ? 1 : -1));

/** Returns the allocations without a row in the table of nodes. */
export const unplacedAllocations = (fleet: Fleet): Allocation[] =>
  [...fleet.allocations.values()].filter(
    ({ node_id, status }) => status !== 'released' && (node_id === null || !fleet.nodes.has(node_id)),
  );

/** Returns the operation in progress on a node, if any. */
export const operationOn = (fleet: Fleet, node: Node): Operation | undefined =>
  node.workflow_id === null ? undefined : fleet.operations.get(node.workflow_id);
