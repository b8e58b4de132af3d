/**
 * Runs the attackers of bench/hostile/hostile.ts in a worker thread: a machine, a tenant and a
 * caller without credentials, all at full speed and over loopback only.
 */
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { parentPort, workerData } from 'node:worker_threads';
import { pause, systemClock } from '../../src/base/clock.ts';

export interface AttackSettings {
  url: string;
  seconds: number;
  /** Connections per attacker. */
  connections: number;
  /** The limit of all attackers together. */
  maxRequests: number;
  machine: { credential: string };
  tenant: { token: string; pool: string; allocation_id: string };
}

export interface AttackResult {
  requests: number;
  /** Counts by attacker and HTTP status; the status is 0 if there was no answer. */
  answers: Record<string, number>;
}

interface HostileRequest {
  method: 'GET' | 'POST';
  path: string;
  bearer?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

const settings = workerData as AttackSettings;
const longText = 'x'.repeat(900);
const repeat = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

const { machine, tenant } = settings;
const byMachine = (path: string, body: unknown): HostileRequest => ({
  method: 'POST',
  path: `/v1/agent/${path}`,
  bearer: machine.credential,
  body,
});
const byTenant = (method: HostileRequest['method'], path: string, body?: unknown): HostileRequest => ({
  ...{ method, path, bearer: tenant.token },
  ...(body !== undefined && { body }),
  headers: { 'idempotency-key': randomUUID(), 'x-correlation-id': randomUUID() },
});

const facts = () =>
  repeat(20, (index) => ({
    ...{
      at: new Date(systemClock.nowMs()).toISOString(),
      layer: 'node',
      kind: 'disk.read',
      summary: longText,
      data: { index, words: longText },
    },
  }));

/** The requests of each attacker, sent in turn. */
const requestsOf: Record<string, ((turn: number) => HostileRequest)[]> = {
  node: [
    () => byMachine('evidence', { facts: facts() }),
    (turn) => byMachine('boot', { stages: repeat(50, (index) => ({ name: `stage-${index}`, seconds: turn % 1000 })) }),
    (turn) =>
      byMachine('prerequisites', {
        results: repeat(32, (index) => ({ name: `check-${index}`, ok: turn % 2 === 0, detail: longText })),
      }),
    (turn) => byMachine('heartbeat', { status: turn % 8 < 4 ? 'degraded' : 'ready', message: longText }),
    (turn) => byMachine('heartbeat', { status: 'ready', boot_stage: `stage-${turn}` }),
    () => byMachine('register', { version: 'hostile' }),
    () => byMachine(`tasks/task_${randomUUID()}/progress`, { message: longText }),
    () => byMachine(`tasks/task_${randomUUID()}/result`, { status: 'failed' }),
  ],
  tenant: [
    () =>
      byTenant('POST', '/v1/evidence', {
        facts: repeat(50, () => ({
          layer: 'operator',
          kind: 'deploy.done',
          summary: longText,
          allocation_id: tenant.allocation_id,
        })),
      }),
    (turn) =>
      byTenant('POST', '/v1/allocations', {
        ...{ pool: tenant.pool, name: `claim-${turn}` },
        labels: Object.fromEntries(repeat(64, (index) => [`label-${index}`, longText.slice(0, 256)])),
      }),
    () => byTenant('POST', `/v1/allocations/alloc_${randomUUID()}/release`, { reason: longText }),
    () => byTenant('GET', '/v1/allocations?limit=500'),
    () => byTenant('GET', '/v1/nodes?limit=500'),
    () => byTenant('POST', '/v1/evidence', { facts: 'none' }),
  ],
  anonymous: [
    () => ({ method: 'GET', path: `/v1/nodes/node_${randomUUID()}`, bearer: `swt_${randomUUID()}` }),
    () => ({ method: 'POST', path: '/v1/session', body: { token: `swt_${randomUUID()}` } }),
    () => ({
      method: 'POST',
      path: '/v1/agent/register',
      body: { join_token: `swj_${randomUUID()}`, name: 'me', version: '1' },
    }),
    () => ({ method: 'POST', path: '/v1/agent/heartbeat', bearer: `swc_${randomUUID()}`, body: { status: 'ready' } }),
    () => ({ method: 'GET', path: `/nothing/${randomUUID()}` }),
    () => ({
      method: 'GET',
      path: '/readyz',
      headers: { 'x-forwarded-for': `10.${Math.trunc(Math.random() * 255)}.1.1` },
    }),
  ],
};

const agent = new Agent({ keepAlive: true, maxSockets: 1_000 });

/** Sends a request. Resolves with the status of the answer, or 0 if there is none. */
function sendRequest({ method, path, bearer, body, headers }: HostileRequest): Promise<number> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve) => {
    const outgoing = request(
      settings.url + path,
      {
        agent,
        method,
        headers: {
          ...headers,
          ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
          ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
        },
        timeout: 30_000,
      },
      (reply) => {
        reply.resume();
        reply.on('close', () => resolve(reply.statusCode ?? 0));
      },
    );
    outgoing.on('timeout', () => outgoing.destroy());
    outgoing.on('error', () => resolve(0));
    outgoing.end(text);
  });
}

const result: AttackResult = { requests: 0, answers: {} };
const endMs = systemClock.monotonicMs() + 1000 * settings.seconds;

async function attack(
  attacker: string,
  requests: ((turn: number) => HostileRequest)[],
  firstTurn: number,
): Promise<void> {
  for (let turn = firstTurn; systemClock.monotonicMs() < endMs && result.requests < settings.maxRequests; turn++) {
    result.requests++;
    const status = await sendRequest((requests[turn % requests.length] as (turn: number) => HostileRequest)(turn));
    const key = `${attacker} ${status}`;
    result.answers[key] = (result.answers[key] ?? 0) + 1;
    if (status === 0) await pause(systemClock, 10);
  }
}

await Promise.all(
  Object.entries(requestsOf).flatMap(([attacker, requests]) =>
    repeat(settings.connections, (connection) => attack(attacker, requests, connection)),
  ),
);
agent.destroy();
parentPort?.postMessage(result);
