/** The relay: joins its listener, its gatherer and its way to the control plane. */
import { createServer, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { openTlsFiles, type TlsFiles } from '../base/network/tls-files.ts';
import type { Log } from '../base/telemetry/log.ts';
import { errorCatalogue } from '../contract/errors/errors.ts';
import { checkToken } from './check-token.ts';
import { createGatherer, defaultLimits, type Gatherer, type GathererLimits } from './gatherer.ts';
import { relayListener } from './listener.ts';
import { type RelayFigures, relayMetrics } from './metrics.ts';
import type { RelayOptions } from './options.ts';
import { tellRefused } from './tell-refused.ts';
import { openUpstream, type Upstream } from './upstream.ts';

export interface Relay {
  url: string;
  figures(): RelayFigures;
  stop(): Promise<void>;
}

/**
 * For a batch to be answered: nearly as long as a beat is held. A control plane that is slow is not sent the same again; one that is not
 * there refuses sooner than this.
 */
const forwardTimeoutMs = 7_000;
const mostConnections = 20_000;
const sayEveryMs = 60_000;

const serverFor = (tls: TlsFiles | null): Server =>
  tls ? createSecureServer({ cert: tls.cert, key: tls.key }) : createServer();

const listening = (server: Server, { port, host }: RelayOptions) =>
  new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });

/** The one way in which a relay ends, whether it has served or could not begin to: no held beat goes unanswered, no stream is left. */
async function takeLeave({ server, gatherer, upstream }: { server: Server; gatherer: Gatherer; upstream: Upstream }) {
  const closed = new Promise((resolve) => server.close(resolve));
  await gatherer.stop();
  await upstream.stop();
  server.closeAllConnections();
  await closed;
}

export async function startRelay(
  options: RelayOptions,
  { clock, log, limits = defaultLimits }: { clock: Clock; log: Log; limits?: GathererLimits },
): Promise<Relay> {
  const tls = await openTlsFiles(options);
  const server = serverFor(tls);
  const upstream = openUpstream({ ...options, clock, log, timeout_ms: forwardTimeoutMs });
  const gatherer = createGatherer({
    clock,
    limits,
    forward: upstream.forward,
    onAway: ({ message, code }) =>
      log.error({ why: message, way_out: errorCatalogue[code].remedy }, 'beats cannot be passed on'),
    onRefused: tellRefused(log),
    onBack: (seconds) => log.warn({ seconds }, 'beats are passed on again'),
  });
  const figures = (): RelayFigures => ({ ...gatherer.figures(), streaming: upstream.isStreaming() });
  server.maxConnections = mostConnections;
  server.on('request', relayListener({ gatherer, upstream, metrics: () => relayMetrics(figures()) }));
  const parts = { server, gatherer, upstream };
  try {
    if (options.token !== null) await checkToken(upstream, options.token);
    await listening(server, options);
  } catch (error) {
    await takeLeave(parts);
    throw error;
  }
  // Not before it listens: whoever finds its port taken would speak, and break off, under the name of the relay that has it.
  upstream.keepStream();

  let cancelSaying = () => {};
  const say = () => {
    log.info(figures(), 'relay');
    cancelSaying = clock.after(sayEveryMs, say);
  };
  cancelSaying = clock.after(sayEveryMs, say);

  const stopFollowing = tls?.follow(server, { clock, log });
  const { port } = server.address() as AddressInfo;
  const shownHost = options.host.includes(':') ? `[${options.host}]` : options.host;
  return {
    url: `${options.tls_cert ? 'https' : 'http'}://${shownHost}:${port}`,
    figures,
    async stop() {
      cancelSaying();
      stopFollowing?.();
      await takeLeave(parts);
    },
  };
}
