/** Opens the part that answers requests: sessions, streams, limits, metrics, the HTTP server. */
import { createAgentStreams } from '../api/agent-stream/streams.ts';
import { createCredentialAge } from '../api/http/credential-age.ts';
import { connectionCaps, createConnections } from '../api/limits/held/connections.ts';
import { openPlaces } from '../api/limits/held/places.ts';
import { watchOverload } from '../api/limits/overload/overload.ts';
import { openLimits } from '../api/limits/quotas/open-limits.ts';
import { openNodeLogs } from '../api/logs/node-logs.ts';
import { createMetrics } from '../api/metrics.ts';
import { createApiServer } from '../api/server.ts';
import type { ApiServices } from '../api/services.ts';
import { apiSettings } from '../api/settings.ts';
import { openTokenChecks } from '../api/sign-in/open-token-checks.ts';
import { createScrapers } from '../api/sign-in/scrapers.ts';
import { createLiveFeed } from '../api/stream/live-feed.ts';
import { createLongPolls } from '../api/stream/long-polls.ts';
import { systemClock } from '../base/clock.ts';
import { readDiskSpace } from '../base/files/disk-space.ts';
import { openFilesLimit } from '../base/network/host.ts';
import { openTlsFiles } from '../base/network/tls-files.ts';
import { createOpenFiles, shareOf, watchHeap } from '../base/process-use.ts';
import { shortage } from '../lifecycle/limits/overload.ts';
import { createAgentSessions } from '../store/agents/sessions/agent-sessions.ts';
import { testWrite } from '../store/operations/write-test.ts';
import { followSecrets } from '../store/rows/secrets/known-values.ts';
import { watchDiskShortage } from './disk-shortage.ts';
import type { Operating } from './open-operations.ts';
import type { OpenedStore } from './open-store.ts';
import { openWatch } from './open-watch.ts';
import { builtFiles, type Opening } from './opening.ts';
import { createReadinessCheck } from './store-readiness.ts';

export async function openApi(opening: Opening, store: OpenedStore, operating: Operating, isDraining: () => boolean) {
  const { settings, log, version, parts, onError } = opening;
  const { services, tracer, latencies, beats, ingest, runner, backups } = operating;
  const { db, clock, tail, watch, restoration } = store;
  const sessions = createAgentSessions(db);
  tail.subscribe((fact) => sessions.observe(fact));
  tail.whenHistoryChanged(() => sessions.forgetAll());
  const preloading = new AbortController();
  const preloaded = sessions
    .preload(clock, preloading.signal)
    .catch(onError('could not read all sessions; each is read with its first heartbeat instead'));
  parts.defer(async () => {
    preloading.abort();
    await preloaded;
  });
  const feed = createLiveFeed({ db, tail, clock, onError: onError('the live feed lost a batch') });
  parts.defer(async () => feed.stop());
  const pool_redactors = await followSecrets(services, tail, log);
  const nodeLogs = openNodeLogs({ db, pool_redactors, clock, log, settings, limits: opening.file.logs, restoration });
  parts.defer(() => nodeLogs.stop());
  const openFiles = createOpenFiles();
  const heap = watchHeap(clock);
  parts.defer(async () => heap.stop());
  const { replica_id } = services.executor;
  const readiness = createReadinessCheck({ ...store, testWrite: (onBegin) => testWrite(db, replica_id, onBegin) }, log);
  const checkStore = readiness.check;
  const diskShortage = watchDiskShortage({
    clock,
    database_dir: store.database_dir,
    isDiskFull: readiness.isDiskFull,
    testWrites: checkStore,
    onError: onError('could not look for a shortage of disk space'),
  });
  parts.defer(async () => diskShortage.stop());
  const readSpace = () => readDiskSpace(store.database_dir ?? opening.data_dir);
  const overload = watchOverload({
    clock,
    beats,
    beat_rate: settings.beat_rate,
    shortage() {
      const heap_share = shareOf(heap.use());
      if (heap_share >= shortage.heap_share) heap.collectIfOld();
      return {
        heap_share,
        files_share: shareOf(openFiles()),
        is_short_of_connections: db.isShortOfConnections(),
        is_short_of_disk: diskShortage.isShort(),
      };
    },
    onChange: (message, strain) => log.warn({ ...strain }, message),
  });
  parts.defer(async () => overload.stop());
  const limits = openLimits({ db, clock, tail, limits: opening.file.limits, onError, parts });
  const { writeLimits } = limits;
  const agentStreams = createAgentStreams({
    db,
    writeLimits,
    clock,
    tail,
    onError: onError('a broken agent stream was not recorded'),
  });
  const apiOptions = apiSettings(settings, version, builtFiles, opening.file.operators_may);
  const connections = createConnections({
    clock,
    caps: connectionCaps(openFilesLimit()),
    proxies: apiOptions.proxies,
    onPressure: (figures) =>
      log.warn(figures, 'too many connections; closing connections without a credential, and idle ones'),
  });
  const tls = await openTlsFiles(settings);
  const api: ApiServices = {
    ...services,
    ...openWatch(opening, store, operating, { checkStore, diskShortage, readSpace, openFiles, heap, tls }),
    log,
    settings: apiOptions,
    sessions,
    ...openTokenChecks({ db, clock, settings, onError, parts }),
    scrapers: createScrapers(clock, () => watch.isAway()),
    beats,
    overload,
    ...limits,
    fleetLoad: () => ({ ...ingest.heartbeatLoad(), beat_rate: settings.beat_rate }),
    tail,
    feed,
    longPolls: createLongPolls({ tail, clock }),
    latencies,
    places: openPlaces(),
    connections,
    agentStreams,
    restoration,
    credential_age: createCredentialAge(clock, opening.settings),
    tracer,
    ...nodeLogs.services,
    isDraining,
    readiness: async () => ({
      database: await checkStore(),
      ...(isDraining() && { shutdown: { ok: false, state: 'stopping', detail: 'this replica is stopping' } }),
    }),
    sweeps: () => runner.statuses(),
    metrics: createMetrics(db, clock, {
      ...nodeLogs.figures,
      version: opening.version,
      sweeps: () => runner.statuses(),
      streams: () => feed.figures(),
      agentStreams: () => agentStreams.figures(),
      overload: () => overload.figures(),
      unstoredBeatsMs: () => beats.unstoredMs(),
      writeLimits: () => writeLimits.figures(),
      connections: () => connections.figures(),
      database: checkStore,
      latencies: latencies.metrics,
      databaseConnections: () => watch.connections(),
      waitingForConnection: () => db.countWaiting(),
      tailLagMs: () => tail.lagMs(),
      diskFreeBytes: async () => (await readSpace())?.free_bytes ?? null,
      backups,
    }),
  };
  const app = await createApiServer(api, tls);
  parts.defer(() => app.close());
  if (tls) parts.adopt(tls.follow(app.server, { clock: systemClock, log }), async (stop) => stop());
  parts.defer(() => agentStreams.stop());
  return { app, settings: api.settings, scheme: tls ? 'https' : 'http' };
}
