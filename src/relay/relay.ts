/** Starts and stops a relay: listener, batcher, and connection to the control plane. */
import { createServer, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { openTlsFiles, type TlsFiles } from '../base/network/tls-files.ts';
import type { Log } from '../base/telemetry/log.ts';
import { errorCatalogue } from '../contract/errors/errors.ts';
import { type Batcher, type BatcherLimits, createHeartbeatBatcher, defaultLimits } from './batcher.ts';
import { checkToken } from './check-token.ts';
import { relayListener } from './listener.ts';
import { logRefusals } from './log-refusals.ts';
import { type RelayFigures, relayMetrics } from './metrics.ts';
import type { RelayOptions } from './options.ts';
import { openUpstream, type Upstream } from './upstream.ts';

export interface Relay {
  url: string;
  figures(): RelayFigures;
  stop(): Promise<void>;
}

/**
 * Timeout for one batch, a little less than a heartbeat may be held: a slow control plane must not
 * get the same batch twice.
 */
const forwardTimeoutMs = 7_000;
const maxConnections = 20_000;
const logEveryMs = 60_000;

const serverFor = (tls: TlsFiles | null): Server =>
  tls ? createSecureServer({ cert: tls.cert, key: tls.key }) : createServer();

const listening = (server: Server, { port, host }: RelayOptions) =>
  new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });

/** Stops a relay, started or not: answers every held heartbeat and closes the stream. */
async function shutDown({ server, batcher, upstream }: { server: Server; batcher: Batcher; upstream: Upstream }) {
  const closed = new Promise((resolve) => server.close(resolve));
  await batcher.stop();
  await upstream.stop();
  server.closeAllConnections();
  await closed;
}

export async function startRelay(
  options: RelayOptions,
  { clock, log, limits = defaultLimits }: { clock: Clock; log: Log; limits?: BatcherLimits },
): Promise<Relay> {
  const tls = await openTlsFiles(options);
  const server = serverFor(tls);
  const upstream = openUpstream({ ...options, clock, log, timeout_ms: forwardTimeoutMs });
  const batcher = createHeartbeatBatcher({
    clock,
    limits,
    forward: upstream.forward,
    onAway: ({ message, code }) =>
      log.error({ why: message, way_out: errorCatalogue[code].remedy }, 'beats cannot be passed on'),
    onRefused: logRefusals(log),
    onBack: (seconds) => log.warn({ seconds }, 'beats are passed on again'),
  });
  const figures = (): RelayFigures => ({ ...batcher.figures(), streaming: upstream.isStreaming() });
  server.maxConnections = maxConnections;
  server.on('request', relayListener({ batcher, upstream, metrics: () => relayMetrics(figures()) }));
  const parts = { server, batcher, upstream };
  try {
    if (options.token !== null) await checkToken(upstream, options.token);
    await listening(server, options);
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

  const stopFollowing = tls?.follow(server, { clock, log });
  const { port } = server.address() as AddressInfo;
  const shownHost = options.host.includes(':') ? `[${options.host}]` : options.host;
  return {
    url: `${options.tls_cert ? 'https' : 'http'}://${shownHost}:${port}`,
    figures,
    async stop() {
      cancelLogging();
      stopFollowing?.();
      await shutDown(parts);
    },
  };
}
