/**
 * The attackers of bench/hostile/hostile.ts, in a worker: one machine, one tenant and one stranger
 * at full speed, loopback only.
 */
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { parentPort, workerData } from 'node:worker_threads';
import { pause, systemClock } from '../../src/base/clock.ts';

export interface Orders {
  url: string;
  seconds: number;
  /** Connections per attacker. */
  connections: number;
  /** The limit for all attackers together. */
  maxRequests: number;
  machine: { credential: string };
  tenant: { token: string; pool: string; allocation_id: string };
}

export interface Sent {
  requests: number;
  /** By attacker and status; 0 if there was no answer. */
  answers: Record<string, number>;
}

interface Shot {
  method: 'GET' | 'POST';
  path: string;
  bearer?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

const orders = workerData as Orders;
const words = 'x'.repeat(900);
const many = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));

const { machine, tenant } = orders;
const byMachine = (path: string, body: unknown): Shot => ({
  method: 'POST',
  path: `/v1/agent/${path}`,
  bearer: machine.credential,
  body,
});
const byTenant = (method: Shot['method'], path: string, body?: unknown): Shot => ({
  ...{ method, path, bearer: tenant.token },
  ...(body !== undefined && { body }),
  headers: { 'idempotency-key': randomUUID(), 'x-correlation-id': randomUUID() },
});

const facts = () =>
  many(20, (index) => ({
    ...{
      at: new Date(systemClock.nowMs()).toISOString(),
      layer: 'node',
      kind: 'disk.read',
      summary: words,
      data: { index, words },
    },
  }));

/** Every kind of write, in turn. */
const shots: Record<string, ((turn: number) => Shot)[]> = {
  node: [
    () => byMachine('evidence', { facts: facts() }),
    (turn) => byMachine('boot', { stages: many(50, (index) => ({ name: `stage-${index}`, seconds: turn % 1000 })) }),
    (turn) =>
      byMachine('prerequisites', {
        results: many(32, (index) => ({ name: `check-${index}`, ok: turn % 2 === 0, detail: words })),
      }),
    (turn) => byMachine('heartbeat', { status: turn % 8 < 4 ? 'degraded' : 'ready', message: words }),
    (turn) => byMachine('heartbeat', { status: 'ready', boot_stage: `stage-${turn}` }),
    () => byMachine('register', { version: 'hostile' }),
    () => byMachine(`tasks/task_${randomUUID()}/progress`, { message: words }),
    () => byMachine(`tasks/task_${randomUUID()}/result`, { status: 'failed' }),
  ],
  tenant: [
    () =>
      byTenant('POST', '/v1/evidence', {
        facts: many(50, () => ({
          layer: 'operator',
          kind: 'deploy.done',
          summary: words,
          allocation_id: tenant.allocation_id,
        })),
      }),
    (turn) =>
      byTenant('POST', '/v1/allocations', {
        ...{ pool: tenant.pool, name: `claim-${turn}` },
        labels: Object.fromEntries(many(64, (index) => [`label-${index}`, words.slice(0, 256)])),
      }),
    () => byTenant('POST', `/v1/allocations/alloc_${randomUUID()}/release`, { reason: words }),
    () => byTenant('GET', '/v1/allocations?limit=500'),
    () => byTenant('GET', '/v1/nodes?limit=500'),
    () => byTenant('POST', '/v1/evidence', { facts: 'none' }),
  ],
  nobody: [
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

function fire({ method, path, bearer, body, headers }: Shot): Promise<number> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve) => {
    const sent = request(
      orders.url + path,
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
    sent.on('timeout', () => sent.destroy());
    sent.on('error', () => resolve(0));
    sent.end(text);
  });
}

const outcome: Sent = { requests: 0, answers: {} };
const endMs = systemClock.monotonicMs() + 1000 * orders.seconds;

async function attack(who: string, ways: ((turn: number) => Shot)[], line: number): Promise<void> {
  for (let turn = line; systemClock.monotonicMs() < endMs && outcome.requests < orders.maxRequests; turn++) {
    outcome.requests++;
    const status = await fire((ways[turn % ways.length] as (turn: number) => Shot)(turn));
    const key = `${who} ${status}`;
    outcome.answers[key] = (outcome.answers[key] ?? 0) + 1;
    if (status === 0) await pause(systemClock, 10);
  }
}

await Promise.all(
  Object.entries(shots).flatMap(([who, ways]) => many(orders.connections, (line) => attack(who, ways, line))),
);
agent.destroy();
parentPort?.postMessage(outcome);
