/** The statuses on the Attention page. An overloaded server never refuses these reads. */
import type { AllocationStatus, NodeStatus, OperationStatus } from '../model/states.ts';

export const attentionStatuses = {
  nodes: ['offline', 'quarantined', 'failed', 'degraded', 'cleaning'],
  allocations: ['failed', 'release_failed'],
  operations: ['running'],
} as const satisfies { nodes: NodeStatus[]; allocations: AllocationStatus[]; operations: OperationStatus[] };

export type AttentionNodeStatus = (typeof attentionStatuses.nodes)[number];
export type AttentionAllocationStatus = (typeof attentionStatuses.allocations)[number];
export type AttentionOperationStatus = (typeof attentionStatuses.operations)[number];
