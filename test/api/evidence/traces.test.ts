/**
 * A request has one trace, from the caller through the API, the operation and the task to the
 * machine and back. All its spans and log lines have the ids of what they concern.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readSettings } from '../../../src/base/settings/settings.ts';
import { createLog } from '../../../src/base/telemetry/log.ts';
import { operationSpanId, parseTraceparent } from '../../../src/base/telemetry/trace.ts';
import type { SignedTask } from '../../../src/contract/agent/agent.ts';
import { startServer } from '../../../src/server/start-server.ts';
import { testDatabase } from '../../support/database.ts';
import { until } from '../../support/until.ts';
import { callRoute } from '../support/calls.ts';
import { type Collector, type ReceivedSpan, startCollector } from '../support/collector.ts';
import { type Machine, startMachine } from '../support/machine.ts';

/** A credential of the collector. */
const collectorKey = 'c29tZWJvZHk6ZWxzZQ';

let collector: Collector;
let url: string;
let bearer: string;
const lines: Record<string, unknown>[] = [];
const cleanups: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  collector = await startCollector();
  const database = await testDatabase();
  const dir = await mkdtemp(join(tmpdir(), 'slipway-traces-'));
  const destination = new Writable({
    write(chunk, _, done) {
      for (const line of String(chunk).trim().split('\n')) lines.push(JSON.parse(line));
      done();
    },
  });
  const flags = ['--port', '0', '--data-dir', dir, '--database-url', database.url, '--otlp-endpoint', collector.url];
  const env = { SLIPWAY_OTLP_HEADERS: `x-team-key=${collectorKey},authorization=Basic%20${collectorKey}` };
  const server = await startServer(readSettings(flags, env), createLog({ level: 'debug', destination }));
  url = server.url;
  bearer = (await readFile(server.admin_token_path, 'utf8')).trim();
  cleanups.push(
    () => server.stop(),
    () => database.drop(),
    () => collector.stop(),
    () => rm(dir, { recursive: true, force: true }),
  );
});
afterAll(async () => {
  for (const cleanup of cleanups) await cleanup();
});

const trace_id = '4bf92f3577b34da6a3ce929d0e0e4736';
const caller = { trace_id, span_id: '00f067aa0ba902b7' };
const traceparent = `00-${caller.trace_id}-${caller.span_id}-01`;

async function startReadyMachine(): Promise<Machine> {
  const options = { bearer };
  await callRoute(url, 'pool-put', { params: { pool: 'yard' }, body: { driver: 'external' } }, options);
  const { body } = await callRoute(url, 'join-token-create', { params: { pool: 'yard' }, body: {} }, options);
  const machine = await startMachine(url, { join_token: String(body.token), name: 'crane' });
  await machine.beat('ready');
  return machine;
}

const waitForSpan = (name: string, matches: (span: ReceivedSpan) => boolean = () => true) =>
  until(`the span of ${name}`, () =>
    collector.spans.find((span) => span.name === name && span.traceId === trace_id && matches(span)),
  );

it('a request has one trace, and its spans and log lines have all five ids', async () => {
  const machine = await startReadyMachine();
  const created = await callRoute(
    url,
    'allocation-create',
    { body: { pool: 'yard' } },
    { bearer, headers: { traceparent } },
  );
  const returnedTrace = parseTraceparent(created.headers.get('traceparent'));
  expect(returnedTrace).toMatchObject({ trace_id, sampled: true });
  const { allocation_id } = created.body.allocation as { allocation_id: string };

  const request = await waitForSpan('allocation-create');
  expect(request).toMatchObject({ spanId: returnedTrace?.span_id, parentSpanId: caller.span_id, kind: 2 });
  expect(request.attributes).toMatchObject({
    allocation_id,
    correlation_id: trace_id,
    'http.response.status_code': '202',
  });

  const { node_id, node_instance_id } = machine;
  const operation = await waitForSpan('node-provision');
  const ids = { node_id, node_instance_id, allocation_id, correlation_id: trace_id };
  expect(operation.attributes).toMatchObject(ids);
  const { workflow_id = '' } = operation.attributes;
  expect(operation.spanId).toBe(operationSpanId(workflow_id));
  const step = await waitForSpan('node-provision assign');
  expect(step).toMatchObject({ parentSpanId: operation.spanId, attributes: { ...ids, workflow_id } });
  expect(BigInt(step.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(step.startTimeUnixNano));
  expect(collector.resources[0]).toMatchObject({ 'service.name': 'slipway' });

  const waitForLogLine = (name: string) =>
    until(`the line of ${name}`, () =>
      lines.find(({ message, operation }) => message === 'request' && operation === name),
    );
  expect(await waitForLogLine('allocation-create')).toMatchObject({
    allocation_id,
    workflow_id,
    correlation_id: trace_id,
  });
  await callRoute(url, 'node-get', { params: { id: node_id } }, { bearer, headers: { traceparent } });
  expect(await waitForLogLine('node-get')).toMatchObject({ ...ids, workflow_id });
  expect((await waitForSpan('node-get')).attributes).toMatchObject({ ...ids, workflow_id });
});

it('the trace continues on the machine with the task, and returns with the result of the task', async () => {
  const machine = await startMachine(url, { join_token: await createJoinToken(), name: 'derrick' });
  await machine.beat('ready');
  const act = { params: { id: machine.node_id, action: 'probe' }, body: { reason: 'to see' } };
  await callRoute(url, 'node-act', act, { bearer, headers: { traceparent } });
  const task = await until('a task', async () => {
    await machine.beat();
    return (await machine.call('agent-task-next', { query: { wait: 1 } })).body.task as SignedTask | null | undefined;
  });
  const { workflow_id } = task;
  expect(task.correlation_id).toBe(trace_id);
  const taskTrace = parseTraceparent(task.traceparent);
  expect(taskTrace).toEqual({ trace_id, span_id: operationSpanId(workflow_id ?? ''), sampled: true });
  await callRoute(
    url,
    'agent-task-result',
    { params: { id: task.task_id }, body: { status: 'succeeded', result: {} } },
    { bearer: machine.credential, headers: { traceparent: task.traceparent ?? '' } },
  );
  const resultSpan = await waitForSpan('agent-task-result');
  const { node_id, node_instance_id } = machine;
  expect(resultSpan).toMatchObject({ parentSpanId: taskTrace?.span_id, attributes: { node_id, node_instance_id } });
  await waitForSpan('node-probe', ({ spanId }) => spanId === taskTrace?.span_id);
  // Periodic calls get no span.
  expect(collector.spans.some(({ name }) => name === 'agent-heartbeat' || name === 'agent-task-next')).toBe(false);
});

const createJoinToken = async () =>
  String((await callRoute(url, 'join-token-create', { params: { pool: 'yard' }, body: {} }, { bearer })).body.token);

it('sends the collector its headers, and shows them nowhere', async () => {
  await until('spans', () => collector.headers.length > 0);
  for (const headers of collector.headers)
    expect(headers).toMatchObject({ 'x-team-key': collectorKey, authorization: `Basic ${collectorKey}` });
  const { status, text } = await callRoute(url, 'settings-get', {}, { bearer });
  expect(status).toBe(200);
  expect(text).not.toContain(collectorKey);
  expect(text).not.toContain('otlp_headers');
  expect(JSON.stringify(lines)).not.toContain(collectorKey);
});
