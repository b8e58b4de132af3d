/**
 * Writes the engine's events to the store under this replica's epoch, and exports ended operations
 * as traces.
 */
import { now, secondsBetween } from '../../base/clock.ts';
import type { Latencies } from '../../base/telemetry/latencies.ts';
import { operationSpanId, type Span, stepSpanId, type Tracer, traceIdOf } from '../../base/telemetry/trace.ts';
import type { EngineListener, Json } from '../../engine/engine.ts';
import { stageOf } from '../../lifecycle/progress/progress.ts';
import { becomeExecutor, finishOperation, recordStoreWait } from '../../store/operations/executions.ts';
import type { OperationRow, StepRow } from '../../store/operations/operation-rows.ts';
import { readOperationRow, readStepRows } from '../../store/operations/operations.ts';
import { type Publication, publishProgress } from '../../store/operations/publish-progress.ts';
import { endStep } from '../../store/operations/steps.ts';
import type { Database } from '../../store/pg/database.ts';
import type { OperationServices } from './services.ts';

export function engineListener(services: () => Pick<OperationServices, 'db' | 'clock' | 'executor'>): EngineListener {
  const at = () => now(services().clock);
  return {
    async executing(run) {
      await becomeExecutor(services().db, run, services().executor, at());
    },
    // Operations write the begin and end of stages themselves. Retries happen inside the engine, so
    // they are written here.
    async stepStarted() {},
    async stepEnded(run, step, ended) {
      if (ended.status === 'retrying')
        await endStep(services().db, run, stageOf(step), ended, services().executor, at());
    },
    async emitted(run, progress: Json) {
      await publishProgress(services().db, run, progress as Publication, services().executor, at());
    },
    async waitedForStore(run, { step, seconds }) {
      await recordStoreWait(services().db, run, { step: step && stageOf(step), seconds }, services().executor, at());
    },
    async ended(run, outcome) {
      // Report only the stage, because a name such as `clean:driver:2` is internal to the engine.
      const failure = outcome.status === 'failed' ? outcome.error : undefined;
      const error = failure && { ...failure, step: failure.step && stageOf(failure.step) };
      await finishOperation(
        services().db,
        run,
        { status: outcome.status, ...(error && { error }) },
        services().executor,
        at(),
      );
    },
  };
}

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
  const operationSpan: Span = {
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
  const stepSpans = steps.flatMap((step): Span[] =>
    step.started_at === null
      ? []
      : [
          {
            trace_id,
            span_id: stepSpanId(workflow_id, step.name),
            parent_span_id: operationSpan.span_id,
            name: `${kind} ${step.name}`,
            kind: 'internal',
            start_ms: step.started_at.getTime(),
            end_ms: (step.finished_at ?? operation.finished_at ?? step.started_at).getTime(),
            attributes: { ...ids, step: step.name, status: step.status },
            error: step.status === 'failed' ? `${step.name} failed` : null,
          },
        ],
  );
  return [operationSpan, ...stepSpans];
}

/**
 * Measures each ended operation, and records it as one span with a child span for each step. Both
 * are taken from rows, so time and steps from before a restart are included.
 */
export const measuringListener = (
  listener: EngineListener,
  { tracer, latencies, db }: { tracer: Tracer | null; latencies: Pick<Latencies, 'observeOperation'>; db: Database },
): EngineListener => ({
  ...listener,
  async ended(run, outcome) {
    await listener.ended(run, outcome);
    const operation = await readOperationRow(db, run.workflow_id);
    if (!operation?.finished_at) return;
    latencies.observeOperation(operation.kind, secondsBetween(operation.created_at, operation.finished_at));
    tracer?.record(spansOf(operation, await readStepRows(db, run.workflow_id)));
  },
});
