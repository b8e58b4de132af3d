/** Who asks for something and why, what they may see of it, and what a request answers. */
import type { AllocationId, CorrelationId, WorkflowId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { AllocationRow } from '../../store/rows/allocations.ts';

export interface Caller {
  actor: Actor | null;
  /** Null: for all tenants. */
  tenant: string | null;
  correlation_id: CorrelationId;
  reason?: string;
}

export interface Touched {
  allocation_id: AllocationId;
  workflow_id: WorkflowId;
}

/** Whose eyes: what a tenant may not see is not there. */
export const visible = (allocation: AllocationRow | undefined, caller: Caller): AllocationRow => {
  if (!allocation || (caller.tenant !== null && allocation.tenant !== caller.tenant))
    throw new ApiProblem('allocation_not_found');
  return allocation;
};
