/** Tests which requests take the fast path, and that all others reach Fastify whole. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../../base/clock.ts';
import { trustedProxies } from '../../../base/network/trusted-proxies.ts';
import { createLog } from '../../../base/telemetry/log.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { AgentSession } from '../../../store/agents/sessions/agent-sessions.ts';
import type { Beat } from '../../../store/heartbeats/heartbeat-columns.ts';
import { createDeferredReports } from '../../limits/quotas/deferred-reports.ts';
import type { ApiServices } from '../../services.ts';
import { openBeatLane, replayBody } from './beat-lane.ts';

const session = {
  node_id: 'node_1',
  node_instance_id: 'inst_1',
  node_status: 'ready',
  reported_status: 'ready',
  verdict_rule: null,
  boot_stage: null,
  interval_seconds: 10,
  stale_after_seconds: 30,
  stored_interval_ms: 10_000,
  assigned_interval_ms: 10_000,
  assigned_at_seconds: 0,
  tasks_waiting: 2,
  fence: { kind: 'none' },
  expires_seconds: 0,
} as unknown as AgentSession;
const fenced = { ...session, fence: { kind: 'fenced', reason: 'replaced', heard_until: null } } as AgentSession;

const addedBeats: Beat[] = [];
let isClosing = false;
let isShedding = false;
const known: Record<string, AgentSession> = { mine: session, former: fenced };
const services = {
  log: createLog({ level: 'silent' }),
  clock: systemClock,
  settings: { loopback_only: true, proxies: trustedProxies([]) },
  sessions: { getCached: (credential: string) => known[credential] },
  beats: { add: (beat: Beat) => addedBeats.push(beat), flushedThroughMs: () => 0 },
  overload: {
    shedding: () => ({ reads: isShedding, beats: isShedding, stretch: isShedding ? 1.8 : 1 }),
    slowDown: (heartbeat_interval_seconds: number) =>
      new ApiProblem('beats_slow_down', {
        retry_after_seconds: heartbeat_interval_seconds,
        heartbeat_interval_seconds,
      }),
  },
  fleetLoad: () => ({ nodes: 1, replicas: 1, beat_rate: 5_000 }),
  deferred: createDeferredReports(systemClock),
  rates: { beatDelayMs: () => 0 },
} as unknown as ApiServices;

/** Stands in for Fastify: answers 418 with the body it received. */
const server = createServer(async (received, response) => {
  const payload = (await replayBody(
    { raw: received } as never,
    undefined,
    received,
  )) as unknown as NodeJS.ReadableStream;
  let body = '';
  for await (const chunk of payload) body += chunk;
  response.writeHead(418).end(body);
});

beforeAll(async () => {
  openBeatLane(server, services, () => isClosing);
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterAll(() => server.close());
beforeEach(() => {
  addedBeats.length = 0;
  isClosing = false;
  isShedding = false;
});

const path = '/v1/agent/heartbeat';
const usualHeaders = { 'content-type': 'application/json', authorization: 'Bearer mine' };
const send = (body: string | undefined, headers: Record<string, string> = usualHeaders, at = path) =>
  fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${at}`, {
    method: 'POST',
    headers,
    ...(body === undefined ? {} : { body }),
  });

it.each([
  ['{}', null],
  ['{"status":"ready","health_score":97,"error_rate":0.25}', { health_score: 97, error_rate: 0.25 }],
  ['{"status":"ready","health_score":97,"message":"fine"}', { health_score: 97, message: 'fine' }],
  ['{"node_instance_id":"inst_1","message":"fine"}', { message: 'fine' }],
])('answers a heartbeat that changes nothing: %s', async (body, reported) => {
  const answer = await send(body);
  expect(answer.status).toBe(200);
  expect(await answer.json()).toEqual({
    node_status: 'ready',
    heartbeat_interval_seconds: expect.any(Number),
    tasks_waiting: 2,
  });
  expect(addedBeats).toEqual([expect.objectContaining({ node_instance_id: 'inst_1', reported })]);
});

it('answers a heartbeat without a body', async () => {
  expect((await send(undefined, { authorization: 'Bearer mine' })).status).toBe(200);
  expect(addedBeats).toHaveLength(1);
});

const large = JSON.stringify({ message: 'm'.repeat(5_000) });
it.each<[string, string, Record<string, string>?, string?]>([
  ['a new status', '{"status":"degraded"}'],
  ['a high error rate', '{"error_rate":0.9}'],
  ['invalid JSON', '{"status"'],
  ['an unknown status', '{"status":"fine"}'],
  ['text for a number', '{"health_score":"high"}'],
  ['a number out of range', '{"error_rate":-1}'],
  ['a large body', large],
  ['the id of another instance', '{"node_instance_id":"inst_2"}'],
  ['an unknown credential', '{}', { ...usualHeaders, authorization: 'Bearer nobody' }],
  ['a fenced instance', '{}', { ...usualHeaders, authorization: 'Bearer former' }],
  ['no credential', '{}', { 'content-type': 'application/json' }],
  ['another content type', '{}', { ...usualHeaders, 'content-type': 'text/plain' }],
  ['a correlation id', '{}', { ...usualHeaders, 'x-correlation-id': 'mine' }],
  ['an origin', '{}', { ...usualHeaders, origin: 'http://127.0.0.1' }],
  ['a query', '{}', usualHeaders, `${path}?a=1`],
])('passes a request with %s to Fastify, with its body', async (_, body, headers, at) => {
  const answer = await send(body, headers, at);
  expect(answer.status).toBe(418);
  expect(await answer.text()).toBe(body);
  expect(addedBeats).toEqual([]);
});

it('passes a request to Fastify if its instance was fenced while the body arrived', async () => {
  const waiting = { ...session, is_outdated: false };
  known.slow = waiting;
  const outgoing = request({
    ...{ host: '127.0.0.1', port: (server.address() as AddressInfo).port, path, method: 'POST' },
    headers: { ...usualHeaders, authorization: 'Bearer slow', 'content-length': '2' },
  });
  const answered = once(outgoing, 'response');
  const arrived = once(server, 'request');
  outgoing.write('{');
  await arrived;
  waiting.is_outdated = true;
  outgoing.end('}');
  const [answer] = (await answered) as [IncomingMessage];
  expect(answer.statusCode).toBe(418);
  expect(await text(answer)).toBe('{}');
  expect(addedBeats).toEqual([]);
});

it('passes everything to Fastify once the server closes', async () => {
  isClosing = true;
  expect((await send('{}')).status).toBe(418);
});

it('sheds a heartbeat in an overload: stores it, with a longer interval and stale time', async () => {
  isShedding = true;
  const answer = await send('{}');
  expect(answer.status).toBe(429);
  expect(answer.headers.get('content-type')).toBe('application/problem+json; charset=utf-8');
  const { code, retry_after_seconds, heartbeat_interval_seconds, correlation_id } = (await answer.json()) as {
    code: string;
    retry_after_seconds: number;
    heartbeat_interval_seconds: number;
    correlation_id: string;
  };
  expect(code).toBe('beats_slow_down');
  expect(correlation_id).toBe(answer.headers.get('x-correlation-id'));
  expect(Number(answer.headers.get('retry-after'))).toBe(Math.ceil(retry_after_seconds));
  expect(heartbeat_interval_seconds).toBeGreaterThan(session.interval_seconds);
  expect(addedBeats).toEqual([
    expect.objectContaining({
      interval_seconds: heartbeat_interval_seconds,
      stale_seconds: 3 * heartbeat_interval_seconds,
    }),
  ]);
  expect((await send('{"status":"degraded"}')).status, 'a new status is never shed').toBe(418);
});
