/**
 * One trace from the caller through the API, the operation and the task to the machine and back,
 * with all ids.
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

let collector: Collector;
let url: string;
let bearer: string;
const lines: Record<string, unknown>[] = [];
const ends: (() => Promise<unknown>)[] = [];

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
  const server = await startServer(readSettings(flags, {}), createLog({ level: 'debug', destination }));
  url = server.url;
  bearer = (await readFile(server.admin_token_path, 'utf8')).trim();
  ends.push(
    () => server.stop(),
    () => database.drop(),
    () => collector.stop(),
    () => rm(dir, { recursive: true, force: true }),
  );
});
afterAll(async () => {
  for (const end of ends) await end();
});

const trace_id = '4bf92f3577b34da6a3ce929d0e0e4736';
const caller = { trace_id, span_id: '00f067aa0ba902b7' };
const traceparent = `00-${caller.trace_id}-${caller.span_id}-01`;

async function ready(): Promise<Machine> {
  const as = { bearer };
  await callRoute(url, 'pool-put', { params: { pool: 'yard' }, body: { driver: 'external' } }, as);
  const { body } = await callRoute(url, 'join-token-create', { params: { pool: 'yard' }, body: {} }, as);
  const machine = await startMachine(url, { join_token: String(body.token), name: 'crane' });
  await machine.beat('ready');
  return machine;
}

const spanOf = (name: string, wanted: (span: ReceivedSpan) => boolean = () => true) =>
  until(`the span of ${name}`, () =>
    collector.spans.find((span) => span.name === name && span.traceId === trace_id && wanted(span)),
  );

it('is one trace, whose spans and log lines carry the five ids', async () => {
  const machine = await ready();
  const made = await callRoute(
    url,
    'allocation-create',
    { body: { pool: 'yard' } },
    { bearer, headers: { traceparent } },
  );
  const back = parseTraceparent(made.headers.get('traceparent'));
  expect(back).toMatchObject({ trace_id, sampled: true });
  const { allocation_id } = made.body.allocation as { allocation_id: string };

  const request = await spanOf('allocation-create');
  expect(request).toMatchObject({ spanId: back?.span_id, parentSpanId: caller.span_id, kind: 2 });
  expect(request.ids).toMatchObject({ allocation_id, correlation_id: trace_id, 'http.response.status_code': '202' });

  const { node_id, node_instance_id } = machine;
  const operation = await spanOf('node-provision');
  const ids = { node_id, node_instance_id, allocation_id, correlation_id: trace_id };
  expect(operation.ids).toMatchObject(ids);
  const { workflow_id = '' } = operation.ids;
  expect(operation.spanId).toBe(operationSpanId(workflow_id));
  const step = await spanOf('node-provision assign');
  expect(step).toMatchObject({ parentSpanId: operation.spanId, ids: { ...ids, workflow_id } });
  expect(BigInt(step.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(step.startTimeUnixNano));
  expect(collector.resources[0]).toMatchObject({ 'service.name': 'slipway' });

  const lineOf = (name: string) =>
    until(`the line of ${name}`, () =>
      lines.find(({ message, operation }) => message === 'request' && operation === name),
    );
  expect(await lineOf('allocation-create')).toMatchObject({ allocation_id, workflow_id, correlation_id: trace_id });
  await callRoute(url, 'node-get', { params: { id: node_id } }, { bearer, headers: { traceparent } });
  expect(await lineOf('node-get')).toMatchObject({ ...ids, workflow_id });
  expect((await spanOf('node-get')).ids).toMatchObject({ ...ids, workflow_id });
});

it('continues on the machine with a task, and returns with its answer', async () => {
  const machine = await startMachine(url, { join_token: await anotherToken(), name: 'derrick' });
  await machine.beat('ready');
  const act = { params: { id: machine.node_id, action: 'probe' }, body: { reason: 'to see' } };
  await callRoute(url, 'node-act', act, { bearer, headers: { traceparent } });
  const task = await until('a task', async () => {
    await machine.beat();
    return (await machine.call('agent-task-next', { query: { wait: 1 } })).body.task as SignedTask | null | undefined;
  });
  const { workflow_id } = task;
  expect(task.correlation_id).toBe(trace_id);
  const carried = parseTraceparent(task.traceparent);
  expect(carried).toEqual({ trace_id, span_id: operationSpanId(workflow_id ?? ''), sampled: true });
  await callRoute(
    url,
    'agent-task-result',
    { params: { id: task.task_id }, body: { status: 'succeeded', result: {} } },
    { bearer: machine.credential, headers: { traceparent: task.traceparent ?? '' } },
  );
  const answered = await spanOf('agent-task-result');
  const { node_id, node_instance_id } = machine;
  expect(answered).toMatchObject({ parentSpanId: carried?.span_id, ids: { node_id, node_instance_id } });
  await spanOf('node-probe', ({ spanId }) => spanId === carried?.span_id);
  // Periodic calls get no span.
  expect(collector.spans.some(({ name }) => name === 'agent-heartbeat' || name === 'agent-task-next')).toBe(false);
});

const anotherToken = async () =>
  String((await callRoute(url, 'join-token-create', { params: { pool: 'yard' }, body: {} }, { bearer })).body.token);
