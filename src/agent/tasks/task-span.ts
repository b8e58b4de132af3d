/** What the machine did for a task, as a span below the one that asked for it. By the server's clock, as the spans around it are. */
import { newSpanId, parseTraceparent, type Span } from '../../base/telemetry/trace.ts';
import type { SignedTask } from '../../contract/agent/agent.ts';
import type { TaskOutcome } from './task.ts';

/** None for a task that names no trace, or one that nobody keeps. */
export function spansOfTask(task: SignedTask, outcome: TaskOutcome, start_ms: number, end_ms: number): Span[] {
  const asked = parseTraceparent(task.traceparent);
  if (!asked?.sampled) return [];
  const { task_id, node_id, node_instance_id, correlation_id, allocation_id, workflow_id } = task;
  return [
    {
      trace_id: asked.trace_id,
      span_id: newSpanId(),
      parent_span_id: asked.span_id,
      name: `agent ${task.type}`,
      kind: 'internal',
      start_ms,
      end_ms: Math.max(start_ms, end_ms),
      attributes: { task_id, node_id, node_instance_id, correlation_id, allocation_id, workflow_id },
      error: outcome.status === 'failed' ? `${outcome.error.code}: ${outcome.error.message}` : null,
    },
  ];
}
