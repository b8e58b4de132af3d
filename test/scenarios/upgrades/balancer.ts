/**
 * A load balancer as docs/how-to/replicas.md describes it: it checks `/readyz` and sends each call
 * to a ready replica. It repeats no call, answers 502 if a replica cuts one, and records each call.
 */
import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pause, systemClock } from '../../../src/base/clock.ts';
import { until } from '../../support/until.ts';

export type Caller = 'agent' | 'client';

export interface BalancedCall {
  caller: Caller;
  /** Method and path, without the query. */
  name: string;
  /** The replica that got the call; null if none was ready. */
  replica_url: string | null;
  /** The status that the caller got. */
  status: number;
  /** The replica broke the connection before the end of its answer. */
  cut: boolean;
}

export interface Balancer {
  url: string;
  /** Resolves when the replica is ready and gets calls. */
  add(replica_url: string): Promise<void>;
  /** Calls that have ended. A call that its caller gave up is not listed. */
  calls: readonly BalancedCall[];
  stop(): Promise<void>;
}

const checkEveryMs = 200;
/** Longer than the interval of heartbeats, so that idle connections of agents stay open. */
const keepAliveMs = 120_000;
const agentPath = /^\/v1\/agent\//;

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`)).ok;
  } catch {
    return false;
  }
}

export async function startBalancer(): Promise<Balancer> {
  const calls: BalancedCall[] = [];
  const isReplicaReady = new Map<string, boolean>();
  const stopping = new AbortController();
  let turn = 0;

  const chooseReplica = (): string | undefined => {
    const ready = [...isReplicaReady].flatMap(([url, isUp]) => (isUp ? [url] : []));
    return ready[turn++ % ready.length];
  };

  const checkReplicas = async () => {
    while (!stopping.signal.aborted) {
      await Promise.all([...isReplicaReady.keys()].map(async (url) => isReplicaReady.set(url, await isReady(url))));
      await pause(systemClock, checkEveryMs, stopping.signal);
    }
  };

  const forward = (request: IncomingMessage, response: ServerResponse) => {
    const replica_url = chooseReplica() ?? null;
    const path = request.url ?? '';
    const name = `${request.method} ${path.replace(/\?.*/, '')}`;
    const caller: Caller = agentPath.test(path) ? 'agent' : 'client';
    const record = (status: number, cut = false) => calls.push({ caller, name, replica_url, status, cut });
    if (replica_url === null) {
      record(503);
      return void response.writeHead(503).end();
    }
    let isGivenUp = false;
    const cutOff = () => {
      if (isGivenUp) return;
      record(response.headersSent ? response.statusCode : 502, true);
      if (response.headersSent) response.destroy();
      else response.writeHead(502).end();
    };
    const headers = { ...request.headers, connection: 'close' };
    const call = httpRequest(`${replica_url}${path}`, { method: request.method, headers, agent: false }, (reply) => {
      const { connection: _, ...replyHeaders } = reply.headers;
      const status = reply.statusCode ?? 0;
      response.writeHead(status, replyHeaders);
      reply.on('error', cutOff).on('end', () => record(status));
      reply.pipe(response);
    });
    // The error of a reply that was cut off also reaches its request.
    call.once('error', () => {
      if (!response.headersSent) cutOff();
    });
    response.on('close', () => {
      isGivenUp = !response.writableFinished;
      call.destroy();
    });
    request.pipe(call);
  };

  const server = createServer({ keepAliveTimeout: keepAliveMs }, forward);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const checking = checkReplicas();
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async add(replica_url) {
      isReplicaReady.set(replica_url, false);
      await until(`${replica_url} to be ready`, () => isReplicaReady.get(replica_url));
    },
    calls,
    async stop() {
      stopping.abort();
      await checking;
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
