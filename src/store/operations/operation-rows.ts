/** The rows of operations and their steps. */
import type { AllocationId, CorrelationId, NodeId, NodeInstanceId, ReplicaId, WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { OperationError } from '../../contract/operation.ts';
import type { ProgressPart } from '../../contract/progress.ts';
import type { OperationStatus, StepStatus } from '../../lifecycle/model/states.ts';
import type { StepHistory } from '../../lifecycle/progress/expectation.ts';

export interface OperationRow {
  workflow_id: WorkflowId;
  kind: string;
  revision: number;
  attempt: number;
  status: OperationStatus;
  node_id: NodeId | null;
  node_instance_id: NodeInstanceId | null;
  allocation_id: AllocationId | null;
  tenant: string | null;
  correlation_id: CorrelationId;
  actor: Actor | null;
  params: Record<string, unknown>;
  progress: PublishedProgress;
  /** The percentage that was last published. */
  percent: number;
  /** Null for an operation on many machines. */
  pool: string | null;
  error: OperationError | null;
  replica_id: ReplicaId | null;
  epoch: string | null;
  created_at: Date;
  started_at: Date | null;
  finished_at: Date | null;
}

export interface StepRow {
  workflow_id: WorkflowId;
  ordinal: number;
  name: string;
  label: string;
  status: StepStatus;
  tries: number;
  /** The estimate of the plan. */
  usual_seconds: number | null;
  /** The history of the pool when the operation was queued. */
  expected: StepHistory | null;
  started_at: Date | null;
  finished_at: Date | null;
  retry_at: Date | null;
  error: OperationError | null;
}

/** The last publication of an executing operation; the rest of a progress is computed. */
export interface PublishedProgress {
  message?: string;
  /** The state that was reached, if the message also holds a counter that is no advance. */
  mark?: string;
  parts?: ProgressPart[];
  /** When it will try again. */
  retry_at?: string;
  updated_at?: string;
  /** When it last reported an advance. */
  advanced_at?: string;
  /** The `retry_at` of its last advance; publications without an advance do not extend it. */
  patient_until?: string;
}
