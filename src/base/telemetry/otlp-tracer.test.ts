/** Tests that a failing collector only loses spans, and that the log reports how many. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../clock.ts';
import { builtInRedactor } from '../redaction/redact.ts';
import { createLog } from './log.ts';
import { otlpTracer } from './otlp-tracer.ts';
import type { Span } from './trace.ts';

let status = 200;
const bodies: string[] = [];
const authorizations: (string | undefined)[] = [];
const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  bodies.push(text);
  authorizations.push(request.headers.authorization);
  response.writeHead(status).end();
});
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(() => server.close());

const lines: string[] = [];
const destination = new Writable({
  write(chunk, _, done) {
    lines.push(String(chunk));
    done();
  },
});
const openTestTracer = () =>
  otlpTracer({
    headers: { authorization: 'Basic b3RscDpodW50ZXIy' },
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    version: '1',
    replica_id: 'rep_1',
    clock: systemClock,
    log: createLog({ level: 'warn', destination }),
    redact: builtInRedactor,
  });
const span: Span = {
  trace_id: 'a'.repeat(32),
  span_id: 'b'.repeat(16),
  parent_span_id: null,
  name: 'a-span',
  kind: 'internal',
  start_ms: 1_000.5,
  end_ms: 2_000,
  attributes: { whole: 3, part: 0.5, yes: true, none: null },
  error: 'the driver failed with password=hunter2',
};

test('sends queued spans before it stops, with secrets redacted', async () => {
  const tracer = openTestTracer();
  tracer.record([span]);
  await tracer.stop();
  const [sent] = JSON.parse(bodies.at(-1) ?? '').resourceSpans[0].scopeSpans[0].spans;
  expect(sent).toMatchObject({ startTimeUnixNano: '1000500000', endTimeUnixNano: '2000000000', kind: 1 });
  expect(sent.status).toMatchObject({ code: 2, message: expect.not.stringContaining('hunter2') });
  expect(sent.attributes).toEqual([
    { key: 'whole', value: { intValue: '3' } },
    { key: 'part', value: { doubleValue: 0.5 } },
    { key: 'yes', value: { boolValue: true } },
  ]);
});

test('sends the configured headers, and logs none of them if the collector refuses', async () => {
  status = 401;
  const tracer = openTestTracer();
  tracer.record([span]);
  await tracer.stop();
  expect(authorizations.at(-1)).toBe('Basic b3RscDpodW50ZXIy');
  expect(JSON.parse(lines.at(-1) ?? '{}')).toMatchObject({ level: 'warn', lost: 1 });
  expect(lines.join('')).not.toContain('b3RscDpodW50ZXIy');
});

test('logs how many spans were lost to a failing collector or a full queue', async () => {
  status = 500;
  const tracer = openTestTracer();
  tracer.record(Array.from({ length: 6_000 }, () => span));
  await tracer.stop();
  expect(JSON.parse(lines.at(-1) ?? '{}')).toMatchObject({ level: 'warn', lost: 1_512 });
});
