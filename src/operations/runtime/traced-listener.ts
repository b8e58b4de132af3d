/** An operation that has ended is one span, and each of its steps one below it: told from the rows, so that a restart loses none. */
import { operationSpanId, type Span, stepSpanId, type Tracer, traceIdOf } from '../../base/telemetry/trace.ts';
import type { EngineListener } from '../../engine/engine.ts';
import type { OperationRow, StepRow } from '../../store/operations/operation-rows.ts';
import { operationRow, stepRows } from '../../store/operations/operations.ts';
import type { Database } from '../../store/pg/database.ts';

const idsOf = ({ node_id, node_instance_id, correlation_id, allocation_id, workflow_id }: OperationRow) => ({
  node_id,
  node_instance_id,
  correlation_id,
  allocation_id,
  workflow_id,
});

function spansOf(operation: OperationRow, steps: StepRow[]): Span[] {
  const { workflow_id, kind, status, error, attempt } = operation;
  const trace_id = traceIdOf(operation.correlation_id);
  const end_ms = (operation.finished_at ?? operation.created_at).getTime();
  const ids = idsOf(operation);
  const whole: Span = {
    trace_id,
    span_id: operationSpanId(workflow_id),
    parent_span_id: null,
    name: kind,
    kind: 'internal',
    start_ms: operation.created_at.getTime(),
    end_ms,
    attributes: { ...ids, status, attempt },
    error: error ? `${error.code}: ${error.message}` : null,
  };
  const parts = steps.flatMap((step): Span[] =>
    step.started_at === null
      ? []
      : [
          {
            trace_id,
            span_id: stepSpanId(workflow_id, step.name),
            parent_span_id: whole.span_id,
            name: `${kind} ${step.name}`,
            kind: 'internal',
            start_ms: step.started_at.getTime(),
            end_ms: (step.finished_at ?? operation.finished_at ?? step.started_at).getTime(),
            attributes: { ...ids, step: step.name, status: step.status },
            error: step.status === 'failed' ? `${step.name} failed` : null,
          },
        ],
  );
  return [whole, ...parts];
}

export const tracedListener = (listener: EngineListener, tracer: Tracer | null, db: Database): EngineListener => ({
  ...listener,
  async ended(run, outcome) {
    await listener.ended(run, outcome);
    const operation = tracer ? await operationRow(db, run.workflow_id) : undefined;
    if (tracer && operation) tracer.record(spansOf(operation, await stepRows(db, run.workflow_id)));
  },
});
