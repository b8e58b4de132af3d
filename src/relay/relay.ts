/** Starts and stops a relay: listener, batcher, and connection to the control plane. */
import { createServer, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { packageVersion } from '../base/files/package-root.ts';
import { openTlsFiles, type TlsFiles } from '../base/network/tls-files.ts';
import type { Log } from '../base/telemetry/log.ts';
import { type ErrorCode, errorCatalogue } from '../contract/errors/errors.ts';
import { agentRoutes } from '../contract/routes/agent.ts';
import {
  type Batcher,
  type BatcherFigures,
  type BatcherLimits,
  createHeartbeatBatcher,
  defaultBatcherLimits,
  type Refusal,
} from './batcher.ts';
import { relayListener } from './listener.ts';
import type { RelayOptions } from './options.ts';
import { openUpstream, type Upstream } from './upstream.ts';

export interface Relay {
  url: string;
  figures(): RelayFigures;
  stop(): Promise<void>;
}

/**
 * The timeout for one batch. Longer than a heartbeat may be held: on a slow link, connecting alone
 * takes several seconds. Agents are answered while their batch is still in flight.
 */
const forwardTimeoutMs = 7_000;
const maxConnections = 20_000;
const logEveryMs = 60_000;

const serverFor = (tls: TlsFiles | null): Server =>
  tls ? createSecureServer({ cert: tls.cert, key: tls.key }) : createServer();

const listen = (server: Server, { port, host }: RelayOptions) =>
  new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });

/** Stops a relay, even one that failed to start. Answers every held heartbeat first. */
async function shutDown({ server, batcher, upstream }: { server: Server; batcher: Batcher; upstream: Upstream }) {
  const closed = new Promise((resolve) => server.close(resolve));
  await batcher.stop();
  await upstream.stop();
  server.closeAllConnections();
  await closed;
}

export async function startRelay(
  options: RelayOptions,
  { clock, log, limits = defaultBatcherLimits }: { clock: Clock; log: Log; limits?: BatcherLimits },
): Promise<Relay> {
  const tls = await openTlsFiles(options);
  const server = serverFor(tls);
  const upstream = openUpstream({ ...options, clock, log, timeout_ms: forwardTimeoutMs });
  const batcher = createHeartbeatBatcher({
    clock,
    limits,
    forward: upstream.forward,
    onOutage: ({ message, code }) =>
      log.error({ why: message, way_out: errorCatalogue[code].remedy }, 'heartbeats cannot be forwarded'),
    onRefused: logRefusals(log),
    onRecovery: (seconds) => log.warn({ seconds }, 'heartbeats are forwarded again'),
  });
  const figures = (): RelayFigures => ({ ...batcher.figures(), streaming: upstream.isStreaming() });
  server.maxConnections = maxConnections;
  server.on('request', relayListener({ batcher, upstream, metrics: () => relayMetrics(figures()) }));
  const parts = { server, batcher, upstream };
  try {
    if (options.token !== null) await checkToken(upstream, options.token);
    await listen(server, options);
  } catch (error) {
    await shutDown(parts);
    throw error;
  }
  // Open the stream only after listening: if the port is taken, another relay may hold the same
  // token, and its stream must not be replaced.
  upstream.keepStream();

  let cancelLogging = () => {};
  const logFigures = () => {
    log.info(figures(), 'relay');
    cancelLogging = clock.after(logEveryMs, logFigures);
  };
  cancelLogging = clock.after(logEveryMs, logFigures);

  const stopWatchingTls = tls?.follow(server, { clock, log });
  const { port } = server.address() as AddressInfo;
  const shownHost = options.host.includes(':') ? `[${options.host}]` : options.host;
  return {
    url: `${options.tls_cert ? 'https' : 'http'}://${shownHost}:${port}`,
    figures,
    async stop() {
      cancelLogging();
      stopWatchingTls?.();
      await shutDown(parts);
    },
  };
}

const tokenRefusal: ErrorCode = 'scope_insufficient';
/** There is one reason per pool. The limit protects against a server that makes reasons up. */
const maxReasons = 100;

/**
 * Logs, once per reason, that heartbeats are refused because of the relay's token. Agents handle
 * the other refusals.
 */
export function logRefusals(log: Pick<Log, 'error'>): (refusal: Refusal) => void {
  const logged = new Set<string>();
  return ({ code, detail }) => {
    if (code !== tokenRefusal || logged.has(detail) || logged.size >= maxReasons) return;
    logged.add(detail);
    log.error({ why: detail, way_out: errorCatalogue[tokenRefusal].remedy }, 'heartbeats are refused');
  };
}

const metricTexts: Record<keyof RelayFigures, [name: string, type: 'counter' | 'gauge', help: string]> = {
  taken: ['beats_total', 'counter', 'Heartbeats received from agents'],
  merged: ['beats_joined_total', 'counter', 'Heartbeats merged with an equal one of their instance'],
  batches: ['batches_total', 'counter', 'Batches sent to the control plane'],
  undelivered: ['beats_unheard_total', 'counter', 'Heartbeats answered as not delivered'],
  held: ['beats_held', 'gauge', 'Heartbeats waiting for an answer'],
  away_seconds: [
    'upstream_away_seconds',
    'gauge',
    'Seconds since the first batch that could not be delivered; 0 again when one is',
  ],
  streaming: ['upstream_streaming', 'gauge', '1 if batches use a stream'],
};

const buildInfo = `# HELP slipway_relay_build_info Always 1; the label has the version
# TYPE slipway_relay_build_info gauge
slipway_relay_build_info{version="${packageVersion()}"} 1
`;

/** Renders the relay's figures for Prometheus. They do not identify agents. */
const relayMetrics = (figures: RelayFigures): string =>
  Object.entries(metricTexts)
    .map(([key, [name, type, help]]) => {
      const value = Number(figures[key as keyof RelayFigures]);
      return `# HELP slipway_relay_${name} ${help}\n# TYPE slipway_relay_${name} ${type}\nslipway_relay_${name} ${value}\n`;
    })
    .concat(buildInfo)
    .join('');

interface RelayFigures extends BatcherFigures {
  streaming: boolean;
}

const refusedStatuses: readonly number[] = [401, 403];
const streamPath = agentRoutes['agent-stream'].path;

const tokenCheckTimeoutMs = 10_000;

class TokenRefused extends Error {
  override name = 'TokenRefused';
}

/**
 * Throws if the token is refused. An unreachable control plane is not an error: it may accept the
 * token once it is back.
 */
export async function checkToken(
  upstream: Pick<Upstream, 'open'>,
  token: string,
  timeout_ms = tokenCheckTimeoutMs,
): Promise<void> {
  const status = await new Promise<number | undefined>((resolve) => {
    const request = upstream.open('GET', streamPath, { authorization: `Bearer ${token}` });
    request.on('response', (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on('error', () => resolve(undefined));
    // A server that accepts the connection and never answers counts as unreachable.
    request.setTimeout(timeout_ms, () => request.destroy());
    request.end();
  });
  if (status !== undefined && refusedStatuses.includes(status))
    throw new TokenRefused(
      'the control plane refuses this token.\n  A relay needs one of its own: slipway tokens create --name NAME --role relay --pool POOL',
    );
}

const listenFailures: Record<string, (at: string) => string> = {
  EADDRINUSE: (at) =>
    `another program already listens at ${at}, perhaps another relay.\n  Stop it, or choose another --port and set it in --server of the agents.`,
  EADDRNOTAVAIL: (at) =>
    `${at} is not an address of this machine.\n  Choose a --host that this machine has. Only programs on this machine can reach 127.0.0.1.`,
  EACCES: (at) =>
    `this user may not listen at ${at}.\n  Choose a --port of 1024 or above, or allow the user to use lower ports.`,
};

/** Explains why a relay could not start, and what to do about it. */
export function describeStartFailure(error: Error, { host, port }: { host: string; port: number }): string {
  const code = 'code' in error ? String(error.code) : '';
  const describe = 'syscall' in error && error.syscall === 'listen' ? listenFailures[code] : undefined;
  return describe?.(`${host.includes(':') ? `[${host}]` : host}:${port}`) ?? error.message;
}
