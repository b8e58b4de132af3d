/** Types of the rows of operations and their steps. */
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
  /** The last published percentage. */
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
  /** The plan's estimate. */
  usual_seconds: number | null;
  /** The pool's durations for this step when the operation was queued. */
  expected: StepHistory | null;
  started_at: Date | null;
  finished_at: Date | null;
  retry_at: Date | null;
  error: OperationError | null;
}

/** The last publication of an executing operation. `progressOf` computes everything else. */
export interface PublishedProgress {
  message?: string;
  /** The state reached. Set if `message` also has a counter, whose changes are not an advance. */
  mark?: string;
  parts?: ProgressPart[];
  /** When the step tries again. */
  retry_at?: string;
  updated_at?: string;
  /** When the operation last reported an advance. */
  advanced_at?: string;
  /** The `retry_at` of the last advance. Publications without an advance do not extend it. */
  patient_until?: string;
  /** Since when the current step fails. */
  failing_since?: string;
  /** How long the current step failed before. */
  failed_seconds?: number;
}
