/**
 * The fast path of a heartbeat answers like the normal path: with the same status, headers and
 * body.
 */
import { Writable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createLog } from '../../../src/base/telemetry/log.ts';
import type { Machine } from '../support/machine.ts';
import { externalServer, readyMachine, reenroll } from '../support/tenants.ts';
import { openWire, type Wire } from '../support/wire.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
let wire: Wire;
let machine: Machine;
let fencedMachine: Machine;

const discard = new Writable({ write: (_, __, done) => done() });
const log = createLog({ level: 'error', destination: discard as never });

/** At log level debug the server uses the normal path for every request. */
const logLevels = { fastPath: 'error', normalPath: 'debug' } as const;

beforeAll(async () => {
  server = await externalServer({ log });
  wire = openWire(server.url);
  machine = await readyMachine(server, 'steady');
  fencedMachine = await readyMachine(server, 'replaced');
  await fencedMachine.beat('stopping');
  await reenroll(server, fencedMachine);
});
afterAll(async () => {
  wire.close();
  await server.stop();
});

const path = '/v1/agent/heartbeat';
const json = { 'content-type': 'application/json' };
const ownHeaders = () => ({ ...json, authorization: `Bearer ${machine.credential}` });
const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

interface RawRequest {
  method?: string;
  path?: string;
  headers: Record<string, string | string[]>;
  body?: string;
}

const requests: Record<string, () => RawRequest> = {
  'a plain heartbeat': () => ({ headers: ownHeaders(), body: '{}' }),
  'a heartbeat with every field': () => ({
    headers: ownHeaders(),
    body: `{"status":"ready","health_score":97.5,"error_rate":0,"active_tasks":3,"message":"wéll","boot_stage":"done","node_instance_id":"${machine.node_instance_id}"}`,
  }),
  'no body': () => ({ headers: { authorization: ownHeaders().authorization } }),
  'an empty body': () => ({ headers: ownHeaders(), body: '' }),
  'a charset': () => ({ headers: { ...ownHeaders(), 'content-type': 'application/json; charset=utf-8' }, body: '{}' }),
  'a content type in mixed case': () => ({
    headers: { ...ownHeaders(), 'content-type': 'Application/JSON' },
    body: '{}',
  }),
  'a body with a byte order mark': () => ({ headers: ownHeaders(), body: '\ufeff{}' }),
  'two scores': () => ({ headers: ownHeaders(), body: '{"health_score":1,"health_score":2}' }),
  'a correlation id': () => ({ headers: { ...ownHeaders(), 'x-correlation-id': 'mine' }, body: '{}' }),
  'a trace': () => ({ headers: { ...ownHeaders(), traceparent: trace }, body: '{}' }),
  'an authorization scheme in lower case': () => ({
    headers: { ...ownHeaders(), authorization: `bearer  ${machine.credential}` },
  }),
  'an idempotency key': () => ({ headers: { ...ownHeaders(), 'idempotency-key': 'k1' }, body: '{}' }),
  'a question mark': () => ({ path: `${path}?`, headers: ownHeaders(), body: '{}' }),
  'a query': () => ({ path: `${path}?a=1`, headers: ownHeaders(), body: '{}' }),
  'a slash at the end': () => ({ path: `${path}/`, headers: ownHeaders(), body: '{}' }),
  'another method': () => ({ method: 'PUT', headers: ownHeaders(), body: '{}' }),
  'not JSON': () => ({ headers: ownHeaders(), body: '{' }),
  'not an object': () => ({ headers: ownHeaders(), body: '[]' }),
  'a null body': () => ({ headers: ownHeaders(), body: 'null' }),
  'an unknown key': () => ({ headers: ownHeaders(), body: '{"cpu":1}' }),
  'a foreign prototype': () => ({ headers: ownHeaders(), body: '{"__proto__":{"status":"ready"}}' }),
  'a constructor': () => ({ headers: ownHeaders(), body: '{"constructor":{"prototype":{}}}' }),
  'an unknown status': () => ({ headers: ownHeaders(), body: '{"status":"fine"}' }),
  'a rate above one': () => ({ headers: ownHeaders(), body: '{"error_rate":1.5}' }),
  'a number that overflows': () => ({ headers: ownHeaders(), body: '{"health_score":1e999}' }),
  'a message with NUL': () => ({ headers: ownHeaders(), body: '{"message":"a\\u0000b"}' }),
  'a lone surrogate': () => ({ headers: ownHeaders(), body: '{"message":"\\ud800"}' }),
  'a message that is too long': () => ({ headers: ownHeaders(), body: JSON.stringify({ message: 'm'.repeat(1025) }) }),
  'a body of 5 kB': () => ({ headers: ownHeaders(), body: JSON.stringify({ message: 'm'.repeat(5_000) }) }),
  'a body that is too large': () => ({ headers: ownHeaders(), body: JSON.stringify({ message: 'm'.repeat(300_000) }) }),
  'another instance': () => ({ headers: ownHeaders(), body: '{"node_instance_id":"inst_another"}' }),
  'another content type': () => ({ headers: { ...ownHeaders(), 'content-type': 'text/plain' }, body: '{}' }),
  'a body without a content type': () => ({ headers: { authorization: ownHeaders().authorization }, body: '{}' }),
  'no credential': () => ({ headers: json, body: '{}' }),
  'an unknown credential': () => ({ headers: { ...ownHeaders(), authorization: 'Bearer swc_nobody' }, body: '{}' }),
  'basic authorization': () => ({ headers: { ...ownHeaders(), authorization: 'Basic abc' }, body: '{}' }),
  'an operator token': () => ({ headers: { ...ownHeaders(), authorization: `Bearer ${server.token}` }, body: '{}' }),
  'a fenced instance': () => ({
    headers: { ...ownHeaders(), authorization: `Bearer ${fencedMachine.credential}` },
    body: '{}',
  }),
  'another host': () => ({ headers: { ...ownHeaders(), host: 'elsewhere.example' }, body: '{}' }),
  'a forwarded host': () => ({ headers: { ...ownHeaders(), 'x-forwarded-host': 'elsewhere.example' }, body: '{}' }),
  'another origin': () => ({ headers: { ...ownHeaders(), origin: 'http://elsewhere.example' }, body: '{}' }),
  'the origin null': () => ({ headers: { ...ownHeaders(), origin: 'null' }, body: '{}' }),
  'connection: close': () => ({ headers: { ...ownHeaders(), connection: 'close' }, body: '{}' }),
};

/** Replaces random and time-dependent values, so that two answers can be compared. */
function normalize(text: string): string {
  return text
    .replaceAll(/"heartbeat_interval_seconds":[\d.]+/g, '"heartbeat_interval_seconds":N')
    .replaceAll(/"correlation_id":"[0-9a-f]{32}"/g, '"correlation_id":ID');
}

const anyId = /[0-9a-f]{32}/g;
const traceHeaders = ['x-correlation-id', 'traceparent'];

it.each(Object.keys(requests))('answers the same on both paths: %s', async (name) => {
  const request = requests[name]?.();
  if (!request) return expect.fail('no such request');
  const answers = [];
  for (const level of Object.values(logLevels)) {
    log.level = level;
    const answer = await wire.send(request.method ?? 'POST', request.path ?? path, request.headers, request.body);
    const isTraced = answer.headers.has('x-correlation-id') && answer.headers.has('traceparent');
    const headers = [...answer.headers].flatMap(([header, value]) => {
      if (traceHeaders.includes(header)) return [];
      if (header === 'date') return [[header, 'now']];
      // The interval in the reply is random, so the length of the reply is random too.
      if (header === 'content-length') return [[header, normalize(answer.text).length > 0]];
      return [[header, value.replaceAll(anyId, 'ID')]];
    });
    // The fast path may omit the trace headers of an accepted heartbeat, because it records
    // nothing.
    if (answer.status !== 200 || request.headers.traceparent || request.headers['x-correlation-id'])
      expect(isTraced, level).toBe(true);
    answers.push({ status: answer.status, body: normalize(answer.text), headers });
  }
  expect(answers[0]).toEqual(answers[1]);
  expect(answers[0]?.status).toBeGreaterThanOrEqual(200);
});

it('answers with the new status while the fast path is enabled', async () => {
  log.level = logLevels.fastPath;
  const changing = await readyMachine(server, 'changing');
  const headers = { ...json, authorization: `Bearer ${changing.credential}` };
  for (const [report, status] of [
    ['degraded', 'degraded'],
    ['ready', 'ready'],
    ['stopping', 'offline'],
    [undefined, 'ready'],
    ['ready', 'ready'],
  ] as const) {
    const answer = await wire.send('POST', path, headers, JSON.stringify({ status: report }));
    expect(answer.body.node_status, `after ${report}`).toBe(status);
  }
});
