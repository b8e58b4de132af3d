/**
 * Derives W3C trace contexts from our own ids. The trace id follows from the correlation id, and an
 * operation's span id from the operation's id, so a task can refer to its parent without stored
 * state.
 */
import { createHash } from 'node:crypto';
import { randomHex } from '../random-hex.ts';

export interface TraceParent {
  trace_id: string;
  span_id: string;
  sampled: boolean;
}

const header = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/;
const traceId = /^[0-9a-f]{32}$/;
const zeros = /^0+$/;

/** Returns null for an invalid context, or one whose ids are zero. */
export function parseTraceparent(text: unknown): TraceParent | null {
  const [, trace_id = '', span_id = '', flags = ''] = typeof text === 'string' ? (header.exec(text) ?? []) : [];
  if (trace_id === '' || zeros.test(trace_id) || zeros.test(span_id)) return null;
  return { trace_id, span_id, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export const traceparentOf = ({ trace_id, span_id, sampled }: TraceParent): string =>
  `00-${trace_id}-${span_id}-${sampled ? '01' : '00'}`;

const digest = (text: string, length: number) => createHash('sha256').update(text).digest('hex').slice(0, length);

/** A generated correlation id is a trace id already. Any other is hashed to a stable trace id. */
export const traceIdOf = (correlation_id: string): string =>
  traceId.test(correlation_id) && !zeros.test(correlation_id) ? correlation_id : digest(correlation_id, 32);

export const newSpanId = (): string => randomHex(8);

export const operationSpanId = (workflow_id: string): string => digest(workflow_id, 16);
export const stepSpanId = (workflow_id: string, step: string): string => digest(`${workflow_id}/${step}`, 16);
export const taskSpanId = (task_id: string): string => digest(task_id, 16);

/** The parent of a task is its operation, or the task itself if no operation created it. */
export const traceparentOfTask = (task: {
  task_id: string;
  correlation_id: string | null;
  workflow_id: string | null;
}): string =>
  traceparentOf({
    trace_id: traceIdOf(task.correlation_id ?? task.task_id),
    span_id: task.workflow_id === null ? taskSpanId(task.task_id) : operationSpanId(task.workflow_id),
    sampled: true,
  });

export interface Span {
  trace_id: string;
  span_id: string;
  parent_span_id: string | null;
  name: string;
  kind: 'server' | 'internal';
  start_ms: number;
  end_ms: number;
  attributes: Record<string, string | number | boolean | null | undefined>;
  /** Null on success. */
  error: string | null;
}

export interface Tracer {
  /** Never waits and never fails; drops spans that do not fit. */
  record(spans: readonly Span[]): void;
  stop(): Promise<void>;
}
