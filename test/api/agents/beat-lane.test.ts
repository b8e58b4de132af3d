/**
 * The fast path of a heartbeat and the normal one give the same answer: status, headers and body.
 */
import { Writable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createLog } from '../../../src/base/telemetry/log.ts';
import type { Machine } from '../support/machine.ts';
import { enrolledAgain, externalServer, readyMachine } from '../support/tenants.ts';
import { openWire, type Wire } from '../support/wire.ts';

let server: Awaited<ReturnType<typeof externalServer>>;
let wire: Wire;
let machine: Machine;
let fenced: Machine;

const discard = new Writable({ write: (_, __, done) => done() });
const log = createLog({ level: 'error', destination: discard as never });

/** At log level debug the server uses the normal path for every request. */
const logLevels = { fastPath: 'error', normalPath: 'debug' } as const;

beforeAll(async () => {
  server = await externalServer({ log });
  wire = openWire(server.url);
  machine = await readyMachine(server, 'steady');
  fenced = await readyMachine(server, 'replaced');
  await fenced.beat('stopping');
  await enrolledAgain(server, fenced);
});
afterAll(async () => {
  wire.close();
  await server.stop();
});

const path = '/v1/agent/heartbeat';
const json = { 'content-type': 'application/json' };
const own = () => ({ ...json, authorization: `Bearer ${machine.credential}` });
const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

interface Sent {
  method?: string;
  path?: string;
  headers: Record<string, string | string[]>;
  body?: string;
}

const requests: Record<string, () => Sent> = {
  'a plain beat': () => ({ headers: own(), body: '{}' }),
  'a beat with every field': () => ({
    headers: own(),
    body: `{"status":"ready","health_score":97.5,"error_rate":0,"active_tasks":3,"message":"wéll","boot_stage":"done","node_instance_id":"${machine.node_instance_id}"}`,
  }),
  'no body': () => ({ headers: { authorization: own().authorization } }),
  'an empty body': () => ({ headers: own(), body: '' }),
  'a charset': () => ({ headers: { ...own(), 'content-type': 'application/json; charset=utf-8' }, body: '{}' }),
  'a content type in mixed case': () => ({ headers: { ...own(), 'content-type': 'Application/JSON' }, body: '{}' }),
  'a body with a byte order mark': () => ({ headers: own(), body: '\ufeff{}' }),
  'two scores': () => ({ headers: own(), body: '{"health_score":1,"health_score":2}' }),
  'a correlation id': () => ({ headers: { ...own(), 'x-correlation-id': 'mine' }, body: '{}' }),
  'a trace': () => ({ headers: { ...own(), traceparent: trace }, body: '{}' }),
  'an authorization scheme in lower case': () => ({
    headers: { ...own(), authorization: `bearer  ${machine.credential}` },
  }),
  'an idempotency key': () => ({ headers: { ...own(), 'idempotency-key': 'k1' }, body: '{}' }),
  'a question mark': () => ({ path: `${path}?`, headers: own(), body: '{}' }),
  'a query': () => ({ path: `${path}?a=1`, headers: own(), body: '{}' }),
  'a slash at the end': () => ({ path: `${path}/`, headers: own(), body: '{}' }),
  'another method': () => ({ method: 'PUT', headers: own(), body: '{}' }),
  'not JSON': () => ({ headers: own(), body: '{' }),
  'not an object': () => ({ headers: own(), body: '[]' }),
  'a null body': () => ({ headers: own(), body: 'null' }),
  'an unknown key': () => ({ headers: own(), body: '{"cpu":1}' }),
  'a foreign prototype': () => ({ headers: own(), body: '{"__proto__":{"status":"ready"}}' }),
  'a constructor': () => ({ headers: own(), body: '{"constructor":{"prototype":{}}}' }),
  'an unknown status': () => ({ headers: own(), body: '{"status":"fine"}' }),
  'a rate above one': () => ({ headers: own(), body: '{"error_rate":1.5}' }),
  'a number that overflows': () => ({ headers: own(), body: '{"health_score":1e999}' }),
  'a message with NUL': () => ({ headers: own(), body: '{"message":"a\\u0000b"}' }),
  'a lone surrogate': () => ({ headers: own(), body: '{"message":"\\ud800"}' }),
  'a message that is too long': () => ({ headers: own(), body: JSON.stringify({ message: 'm'.repeat(1025) }) }),
  'a body of 5 kB': () => ({ headers: own(), body: JSON.stringify({ message: 'm'.repeat(5_000) }) }),
  'a body that is too large': () => ({ headers: own(), body: JSON.stringify({ message: 'm'.repeat(300_000) }) }),
  'another instance': () => ({ headers: own(), body: '{"node_instance_id":"inst_another"}' }),
  'another content type': () => ({ headers: { ...own(), 'content-type': 'text/plain' }, body: '{}' }),
  'a body without a content type': () => ({ headers: { authorization: own().authorization }, body: '{}' }),
  'no credential': () => ({ headers: json, body: '{}' }),
  'an unknown credential': () => ({ headers: { ...own(), authorization: 'Bearer swc_nobody' }, body: '{}' }),
  'basic authorization': () => ({ headers: { ...own(), authorization: 'Basic abc' }, body: '{}' }),
  'an operator token': () => ({ headers: { ...own(), authorization: `Bearer ${server.token}` }, body: '{}' }),
  'a fenced instance': () => ({ headers: { ...own(), authorization: `Bearer ${fenced.credential}` }, body: '{}' }),
  'another host': () => ({ headers: { ...own(), host: 'elsewhere.example' }, body: '{}' }),
  'a forwarded host': () => ({ headers: { ...own(), 'x-forwarded-host': 'elsewhere.example' }, body: '{}' }),
  'another origin': () => ({ headers: { ...own(), origin: 'http://elsewhere.example' }, body: '{}' }),
  'the origin null': () => ({ headers: { ...own(), origin: 'null' }, body: '{}' }),
  'connection: close': () => ({ headers: { ...own(), connection: 'close' }, body: '{}' }),
};

/** Random and time-dependent values are only checked to be present. */
function comparable(text: string): string {
  return text
    .replaceAll(/"heartbeat_interval_seconds":[\d.]+/g, '"heartbeat_interval_seconds":N')
    .replaceAll(/"correlation_id":"[0-9a-f]{32}"/g, '"correlation_id":ID');
}

const anyId = /[0-9a-f]{32}/g;
const traceHeaders = ['x-correlation-id', 'traceparent'];

it.each(Object.keys(requests))('%s', async (name) => {
  const sent = requests[name]?.();
  if (!sent) return expect.fail('no such request');
  const answers = [];
  for (const level of Object.values(logLevels)) {
    log.level = level;
    const answer = await wire.send(sent.method ?? 'POST', sent.path ?? path, sent.headers, sent.body);
    const isTraced = answer.headers.has('x-correlation-id') && answer.headers.has('traceparent');
    const headers = [...answer.headers].flatMap(([header, value]) => {
      if (traceHeaders.includes(header)) return [];
      if (header === 'date') return [[header, 'now']];
      // The interval of the reply is random, and so is its length.
      if (header === 'content-length') return [[header, comparable(answer.text).length > 0]];
      return [[header, value.replaceAll(anyId, 'ID')]];
    });
    // Only an accepted plain heartbeat goes without the trace: nothing is recorded under it.
    if (answer.status !== 200 || sent.headers.traceparent || sent.headers['x-correlation-id'])
      expect(isTraced, level).toBe(true);
    answers.push({ status: answer.status, body: comparable(answer.text), headers });
  }
  expect(answers[0]).toEqual(answers[1]);
  expect(answers[0]?.status).toBeGreaterThanOrEqual(200);
});

it('answers each changed status on the fast path', async () => {
  log.level = logLevels.fastPath;
  const moving = await readyMachine(server, 'moving');
  const headers = { ...json, authorization: `Bearer ${moving.credential}` };
  for (const [status, reached] of [
    ['degraded', 'degraded'],
    ['ready', 'ready'],
    ['stopping', 'offline'],
    [undefined, 'ready'],
    ['ready', 'ready'],
  ] as const) {
    const answer = await wire.send('POST', path, headers, JSON.stringify({ status }));
    expect(answer.body.node_status, `after ${status}`).toBe(reached);
  }
});
