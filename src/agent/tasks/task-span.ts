/** Builds the span of a task, as a child of the span that requested it, by the server's clock. */
import { newSpanId, parseTraceparent, type Span } from '../../base/telemetry/trace.ts';
import type { SignedTask } from '../../contract/agent/agent.ts';
import type { TaskOutcome } from './task.ts';

/** Empty if the task has no trace, or one that is not sampled. */
export function spansOfTask(task: SignedTask, outcome: TaskOutcome, start_ms: number, end_ms: number): Span[] {
  const parent = parseTraceparent(task.traceparent);
  if (!parent?.sampled) return [];
  const { task_id, node_id, node_instance_id, correlation_id, allocation_id, workflow_id } = task;
  return [
    {
      trace_id: parent.trace_id,
      span_id: newSpanId(),
      parent_span_id: parent.span_id,
      name: `agent ${task.type}`,
      kind: 'internal',
      start_ms,
      end_ms: Math.max(start_ms, end_ms),
      attributes: { task_id, node_id, node_instance_id, correlation_id, allocation_id, workflow_id },
      error: outcome.status === 'failed' ? `${outcome.error.code}: ${outcome.error.message}` : null,
    },
  ];
}
