import { expect, test } from 'vitest';
import { operationSpanId, parseTraceparent, traceIdOf, traceparentOf, traceparentOfTask } from './trace.ts';

const trace_id = '4bf92f3577b34da6a3ce929d0e0e4736';
const span_id = '00f067aa0ba902b7';

test('parses and formats a W3C trace context', () => {
  const text = `00-${trace_id}-${span_id}-01`;
  expect(parseTraceparent(text)).toEqual({ trace_id, span_id, sampled: true });
  expect(traceparentOf({ trace_id, span_id, sampled: true })).toBe(text);
  expect(parseTraceparent(`00-${trace_id}-${span_id}-00`)).toMatchObject({ sampled: false });
});

test.for([
  undefined,
  '',
  'nonsense',
  `00-${'0'.repeat(32)}-${span_id}-01`,
  `00-${trace_id}-${'0'.repeat(16)}-01`,
  `00-${trace_id.toUpperCase()}-${span_id}-01`,
])('returns null for the invalid trace context %j', (text) => {
  expect(parseTraceparent(text)).toBeNull();
});

test('uses a generated correlation id as the trace id, and hashes any other to a stable one', () => {
  expect(traceIdOf(trace_id)).toBe(trace_id);
  expect(traceIdOf('ticket-4711')).toMatch(/^[0-9a-f]{32}$/);
  expect(traceIdOf('ticket-4711')).toBe(traceIdOf('ticket-4711'));
  expect(traceIdOf('ticket-4712')).not.toBe(traceIdOf('ticket-4711'));
});

test('makes the span of its operation the parent of a task', () => {
  const task = { task_id: 'task_1', correlation_id: trace_id, workflow_id: 'op_1' };
  expect(parseTraceparent(traceparentOfTask(task))).toEqual({
    trace_id,
    span_id: operationSpanId('op_1'),
    sampled: true,
  });
  expect(parseTraceparent(traceparentOfTask({ ...task, workflow_id: null }))?.trace_id).toBe(trace_id);
});
