/** A batch of facts from the evidence tail, with the current rows that the facts are about. */
import type { Allocation } from '../../contract/allocation.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { Node } from '../../contract/node.ts';
import type { Operation } from '../../contract/operation.ts';

export interface FeedBatch {
  facts: Evidence[];
  nodes: Map<string, Node>;
  allocations: Map<string, Allocation>;
  operations: Map<string, Operation>;
  /** Operations whose progress changed with time alone, without a fact. */
  progressedIds?: string[];
}
