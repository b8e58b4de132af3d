/** Operations and their steps as rows. */
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
  /** How far it was last told to be. */
  percent: number;
  /** Null where it is about many machines. */
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
  /** The plan's guess. */
  usual_seconds: number | null;
  /** What the pool had recorded when the operation was queued. */
  expected: StepHistory | null;
  started_at: Date | null;
  finished_at: Date | null;
  retry_at: Date | null;
  error: OperationError | null;
}

/** What the executing operation last said; everything else in a progress is computed. */
export interface PublishedProgress {
  message?: string;
  /** What has been reached, where the message also tells what only ticks. */
  mark?: string;
  parts?: ProgressPart[];
  /** When it means to look again. */
  retry_at?: string;
  updated_at?: string;
  /** When it last said that it had reached something else than before. */
  advanced_at?: string;
  /** When it meant to look again, as it said then. Only saying so once more makes nobody more patient. */
  patient_until?: string;
}
