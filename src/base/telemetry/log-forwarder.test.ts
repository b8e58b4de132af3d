/**
 * Tests that lines reach a real receiver with their ids. If a receiver fails, refuses or is slow,
 * lines are dropped and counted.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../clock.ts';
import { createLogForwarder, type ForwardedLine, lokiReceiver, otlpReceiver } from './log-forwarder.ts';
import { traceIdOf } from './trace.ts';

interface ReceivedRequest {
  path: string;
  authorization: string | undefined;
  body: never;
}

let statuses: number[] = [];
let requests: ReceivedRequest[] = [];
const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  requests.push({
    path: request.url ?? '',
    authorization: request.headers.authorization,
    body: JSON.parse(text) as never,
  });
  response.writeHead(statuses.shift() ?? 204).end();
});
let address = '';
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});
beforeEach(() => {
  statuses = [];
  requests = [];
});
afterAll(() => server.close());

const ids = {
  node_id: 'node_1',
  node_instance_id: 'inst_1',
  allocation_id: 'alloc_1',
  correlation_id: 'corr-1',
  workflow_id: 'op_1',
};
const line = (seq: number): ForwardedLine => ({
  seq,
  at: '2026-01-01T00:00:00.250Z',
  stream: 'stdout',
  line: `line ${seq}`,
  ids,
});
const parts = { clock: systemClock, log: { warn: () => {} }, retries_ms: [1, 1] };
const nanos = '1767225600250000000';

test('sends Loki the five ids as structured metadata, not as labels, and the password as a header', async () => {
  const loki = createLogForwarder({ ...parts, receiver: lokiReceiver(`http://me:s%40cret@${address}/`) });
  loki.take([line(1), { ...line(2), stream: 'stderr' }]);
  await until('the lines', () => loki.figures().sent === 2);
  expect(requests).toEqual([
    {
      path: '/loki/api/v1/push',
      authorization: `Basic ${Buffer.from('me:s@cret').toString('base64')}`,
      body: {
        streams: [
          {
            stream: { service_name: 'slipway-node', stream: 'stdout' },
            values: [[nanos, 'line 1', { ...ids, seq: '1' }]],
          },
          {
            stream: { service_name: 'slipway-node', stream: 'stderr' },
            values: [[nanos, 'line 2', { ...ids, seq: '2' }]],
          },
        ],
      },
    },
  ]);
});

test('sends an OTLP collector the ids as attributes and the trace id of each record', async () => {
  const otlp = createLogForwarder({
    ...parts,
    receiver: otlpReceiver(`http://${address}/otlp`, { authorization: 'Bearer b' }),
  });
  otlp.take([line(1)]);
  await until('the line', () => otlp.figures().sent === 1);
  const [{ path, body, authorization } = { path: '', body: {} as never }] = requests;
  expect(path).toBe('/otlp/v1/logs');
  expect(authorization).toBe('Bearer b');
  const attributes = Object.entries({ ...ids, stream: 'stdout', seq: '1' });
  expect(body).toMatchObject({
    resourceLogs: [
      {
        scopeLogs: [
          {
            logRecords: [
              {
                timeUnixNano: nanos,
                body: { stringValue: 'line 1' },
                attributes: attributes.map(([key, stringValue]) => ({ key, value: { stringValue } })),
                traceId: traceIdOf('corr-1'),
              },
            ],
          },
        ],
      },
    ],
  });
});

test('retries temporary failures, and drops and counts permanent refusals', async () => {
  const loki = createLogForwarder({ ...parts, receiver: lokiReceiver(`http://${address}`) });
  statuses = [503, 429, 204, 400];
  loki.take([line(1)]);
  await until('the line', () => loki.figures().sent === 1);
  expect(requests).toHaveLength(3);
  loki.take([line(2)]);
  await until('the drop', () => loki.figures().dropped === 1);
  expect(requests).toHaveLength(4);
  statuses = [500, 500, 500];
  loki.take([line(3)]);
  await until('the drop', () => loki.figures().dropped === 2);
  expect(loki.figures()).toEqual({ receiver: 'loki', sent: 1, dropped: 2, waiting: 0 });
});

test('drops lines beyond the queue, and makes no caller wait if the receiver does not answer', async () => {
  const forwarder = createLogForwarder({
    ...parts,
    retries_ms: [60_000],
    max_waiting: 10,
    receiver: lokiReceiver('http://127.0.0.1:9'),
  });
  forwarder.take([line(1)]);
  forwarder.take(Array.from({ length: 30 }, (_, i) => line(i + 2)));
  expect(forwarder.figures()).toMatchObject({ waiting: 10, dropped: 20 });
  await forwarder.stop();
  expect(forwarder.figures()).toEqual({ receiver: 'loki', sent: 0, dropped: 31, waiting: 0 });
});

test('clamps times that are centuries ahead, since a receiver would refuse the whole batch', () => {
  const futureLine = { ...line(1), at: '2999-12-31T23:59:59.000Z' };
  const maxNanos = (2n ** 63n - 1n).toString();
  expect(lokiReceiver('http://h').write([futureLine])).toMatchObject({
    streams: [{ values: [[maxNanos, 'line 1', {}]] }],
  });
  expect(JSON.stringify(otlpReceiver('http://h').write([futureLine]))).toContain(`"timeUnixNano":"${maxNanos}"`);
});
