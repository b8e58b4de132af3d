/** The caller of a request, and the checks that hide other tenants' allocations and operations. */
import type { AllocationId, CorrelationId, WorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import { canSee, type Visibility } from '../../lifecycle/visibility.ts';
import type { OperationRow } from '../../store/operations/operation-rows.ts';
import type { AllocationRow } from '../../store/rows/allocations.ts';

export interface Caller {
  actor: Actor | null;
  visibility: Visibility;
  correlation_id: CorrelationId;
  reason?: string;
}

/** Ids of an allocation and of the operation that a request queued or found running for it. */
export interface AllocationOperation {
  allocation_id: AllocationId;
  workflow_id: WorkflowId;
}

/** Throws for another tenant's allocation the same error as for an unknown one. */
export function requireVisibleAllocation(allocation: AllocationRow | undefined, { visibility }: Caller): AllocationRow {
  if (!allocation || !canSee(visibility, allocation.tenant)) throw new ApiProblem('allocation_not_found');
  return allocation;
}

export function requireVisibleOperation(operation: OperationRow | undefined, { visibility }: Caller): OperationRow {
  if (!operation || !canSee(visibility, operation.tenant)) throw new ApiProblem('operation_not_found');
  return operation;
}
