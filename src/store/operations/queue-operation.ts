/** Queues operations with their steps and evidence in the caller's transaction. */
import type { AllocationId, CorrelationId, NodeId, NodeInstanceId, WorkflowId } from '../../base/ids.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { StepHistory } from '../../lifecycle/progress/expectation.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Transaction } from '../pg/database.ts';
import { redactRows } from '../pg/redacted-rows.ts';
import { setExpectedDurations } from './step-samples.ts';

export interface NewOperation {
  workflow_id: WorkflowId;
  kind: string;
  revision: number;
  node_id?: NodeId | null;
  node_instance_id?: NodeInstanceId | null;
  allocation_id?: AllocationId | null;
  tenant: string | null;
  correlation_id: CorrelationId;
  actor: Actor | null;
  params: Record<string, unknown>;
  steps: {
    name: string;
    label: string;
    usual_seconds: number | null;
    within_seconds: number | null;
    expected?: StepHistory;
  }[];
}

/** The `operation-start` sweep starts them, because the engine cannot join this transaction. */
export async function queueOperations(tx: Transaction, operations: NewOperation[], now: Date): Promise<void> {
  if (operations.length === 0) return;
  const queued = redactRows(tx.redact, operations, ['params', 'actor.name']);
  await tx.query(
    `insert into operations (
       workflow_id, kind, revision, status, node_id, node_instance_id, allocation_id, tenant,
       correlation_id, actor, params, pool, created_at)
     select
       workflow_id, kind, revision, 'queued', node_id, node_instance_id, allocation_id, tenant,
       correlation_id, actor, params,
       coalesce(
         (select node.pool from nodes node where node.node_id = queued.node_id),
         (select allocation.pool from allocations allocation where allocation.allocation_id = queued.allocation_id)),
       $2
     from jsonb_to_recordset($1::jsonb) as queued(
       workflow_id text, kind text, revision integer, node_id text, node_instance_id text,
       allocation_id text, tenant text, correlation_id text, actor jsonb, params jsonb)`,
    [queued, now],
    { prepared: true },
  );
  await tx.query(
    `insert into steps (workflow_id, ordinal, name, label, status, usual_seconds, within_seconds, expected)
     select
       queued.workflow_id, ordinal, step ->> 'name', step ->> 'label', 'pending',
       (step ->> 'usual_seconds')::double precision,
       (step ->> 'within_seconds')::double precision,
       step -> 'expected'
     from jsonb_to_recordset($1::jsonb) as queued(workflow_id text, steps jsonb),
       jsonb_array_elements(queued.steps) with ordinality as list(step, ordinal)`,
    [queued],
    { prepared: true },
  );
  await setExpectedDurations(
    tx,
    operations.map(({ workflow_id }) => workflow_id),
  );
  await recordEvidence(
    tx,
    operations.map((operation) => ({
      at: now,
      layer: 'workflow',
      kind: 'operation.queued',
      summary: `${operation.kind} was queued`,
      data: {
        kind: operation.kind,
        revision: operation.revision,
        ...(operation.params.reason ? { reason: operation.params.reason } : {}),
      },
      actor: operation.actor,
      node_id: operation.node_id ?? null,
      node_instance_id: operation.node_instance_id ?? null,
      correlation_id: operation.correlation_id,
      allocation_id: operation.allocation_id ?? null,
      workflow_id: operation.workflow_id,
    })),
  );
}

export const queueOperation = (tx: Transaction, operation: NewOperation, now: Date): Promise<void> =>
  queueOperations(tx, [operation], now);
