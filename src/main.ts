/** The composition root of the server: the only place that joins concrete parts. */
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createAgentStreams } from './api/agent-stream/streams.ts';
import { createCredentialAge } from './api/http/credential-age.ts';
import { connectionCaps, createConnections } from './api/limits/held/connections.ts';
import { openPlaces } from './api/limits/held/places.ts';
import { watchOverload } from './api/limits/overload/overload.ts';
import { openLimits } from './api/limits/quotas/open-limits.ts';
import { openNodeLogs } from './api/logs/node-logs.ts';
import { createMetrics } from './api/metrics.ts';
import { createApiServer } from './api/server.ts';
import type { ApiServices } from './api/services.ts';
import { apiSettings } from './api/settings.ts';
import { openTokenChecks } from './api/sign-in/open-token-checks.ts';
import { createLiveFeed } from './api/stream/live-feed.ts';
import { type Clock, now, secondsLater, systemClock } from './base/clock.ts';
import { openKeyRing } from './base/credentials/key-ring.ts';
import { newReplicaId } from './base/ids.ts';
import { hostIdentity, isProcessAlive } from './base/network/host.ts';
import { openFilesLimit } from './base/network/open-files.ts';
import { publicAuthority } from './base/network/public-authority.ts';
import { openTlsFiles } from './base/network/tls-files.ts';
import { createRedactor, type LearningRedactor } from './base/redaction/redact.ts';
import { readSettings, type ServerSettings, SettingsError, serverUsage } from './base/settings/settings.ts';
import { createLog, type Log } from './base/telemetry/log.ts';
import { openTracer } from './base/telemetry/open-tracer.ts';
import { welcome } from './cli/render/local/welcome.ts';
import { readServerFile, type ServerFileSettings } from './contract/server-file.ts';
import type { Driver } from './drivers/driver.ts';
import { createDbosEngine } from './engine/dbos-engine.ts';
import { openDrivers } from './open-drivers.ts';
import { type OpenedStore, openStore, storeReadiness } from './open-store.ts';
import { operationRegistry } from './operations/registry.ts';
import { engineListener, tracedListener } from './operations/runtime/engine-listener.ts';
import {
  adminTokenPath,
  ensureAdminToken,
  ensureLocalPool,
  startFailureMessage,
} from './operations/runtime/server-start.ts';
import type { OperationServices } from './operations/runtime/services.ts';
import { describeAnswer } from './probe/http-probe.ts';
import { probeMany } from './probe/probe-many.ts';
import { createAgentSessions } from './store/agents/agent-sessions.ts';
import { createHeartbeatBuffer } from './store/heartbeats/heartbeat-buffer.ts';
import {
  announceReplica,
  endReplica,
  leaseSeconds,
  otherAddresses,
  registerReplica,
} from './store/operations/replicas.ts';
import { StoreUnavailable } from './store/pg/database.ts';
import { followSecrets } from './store/rows/secrets/known-values.ts';
import { defaultEnvironment, type TransitionEnvironment } from './store/transitions/transition-rules.ts';
import { sweepRegistry } from './sweeps/registry.ts';
import { operationWaker } from './sweeps/runner/operation-waker.ts';
import { createRefusals } from './sweeps/runner/refusals.ts';
import { createSweepRunner } from './sweeps/runner/runner.ts';
import type { SweepServices } from './sweeps/runner/services.ts';
import { createSuspects } from './sweeps/runner/suspects.ts';
import type { Sweep } from './sweeps/runner/sweep.ts';
import { openIngestWatch } from './sweeps/watchers/ingest-watch.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const agentBundle = join(root, 'dist', 'agent.mjs');
const builtFiles = { console_dir: join(root, 'dist', 'console'), agent_bundle: agentBundle };

async function versionOf(): Promise<string> {
  return (JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }).version;
}

/** What everybody strikes out, what the file adds to it, and what this server was started with. */
const redactorOf = ({ redact }: ServerFileSettings, { admin_token }: ServerSettings): LearningRedactor =>
  createRedactor(redact.patterns, admin_token === null ? [] : [admin_token]);

export interface RunningServer {
  url: string;
  replica_id: string;
  admin_token_path: string;
  /** Resolves with the reason when this server must not go on; whoever runs it then stops it. */
  lost: Promise<Error>;
  stop(): Promise<void>;
}

/** What is opened is closed in the opposite order, at the end or when a later part fails to open. */
interface Opening {
  settings: ServerSettings;
  log: Log;
  data_dir: string;
  version: string;
  parts: AsyncDisposableStack;
  composition: Composition;
  file: ServerFileSettings;
  redact: LearningRedactor;
  onError(what: string): (error: unknown) => void;
}

async function openReplica({ version, parts }: Opening, { db, clock }: OpenedStore, host: string) {
  const executor = await registerReplica(db, {
    replica_id: newReplicaId(clock),
    host,
    pid: process.pid,
    address: '',
    version,
    started_at: now(clock),
    lease_until: secondsLater(now(clock), leaseSeconds),
  });
  parts.defer(() => endReplica(db, executor.replica_id, now(clock)));
  return executor;
}

async function openOperations(opening: Opening, store: OpenedStore, server_url: () => string) {
  const { log, parts, onError, composition, version, redact } = opening;
  const { db, watch, clock, installation, tail } = store;
  const host = hostIdentity();
  const executor = await openReplica(opening, store, host);
  const { replica_id } = executor;
  const { settings, data_dir } = opening;
  const drivers = openDrivers({ settings, log, data_dir, db, clock, installation, agent_bundle: agentBundle });
  const tracer = await openTracer({
    endpoint: opening.settings.otlp_endpoint,
    version,
    replica_id,
    clock,
    log,
    redact,
  });
  parts.defer(async () => tracer?.stop());
  const environment: TransitionEnvironment = { ...defaultEnvironment, ...opening.file };
  const services: OperationServices = {
    db,
    clock,
    environment: composition.environment?.(environment) ?? environment,
    installation,
    key_ring: openKeyRing(settings.key_file ?? join(data_dir, 'keys.json'), clock),
    executor,
    drivers: composition.drivers?.(drivers, clock) ?? drivers,
    server_url,
    public_ca: await publicAuthority(opening.settings),
    otlp_endpoint: opening.settings.otlp_endpoint,
    other_server_urls: () => otherAddresses(db, executor.replica_id, now(clock)),
    probe: async (target) => {
      const [answer] = await probeMany([target], { clock });
      if (!answer) throw new Error('a probe was not answered');
      return { ok: answer.ok, detail: describeAnswer(answer), ...(!answer.ok && { because: answer.because }) };
    },
    cancelRun: async (workflow_id, attempt) => {
      await engine.cancel(workflow_id, attempt);
    },
  };
  const engine = createDbosEngine({
    connectionString: store.owner_url,
    clock,
    executor_id: executor.replica_id,
    listener: tracedListener(
      engineListener(() => services),
      tracer,
      db,
    ),
    log,
    store: {
      Client: watch.Client,
      isAway: (error) => error instanceof StoreUnavailable,
      awayMs: () => watch.awayMs(),
      whenBack: (listener) => watch.whenBack(listener),
    },
  });
  for (const definition of operationRegistry(services)) engine.register(definition);
  await engine.launch();
  parts.defer(() => engine.shutdown());

  const beats = createHeartbeatBuffer(db, clock, onError('heartbeats could not be stored; they are tried again'));
  parts.defer(() => beats.stop());
  const ingest = await openIngestWatch({
    db,
    executor,
    clock,
    flushedThrough: () => beats.flushedThrough(),
    onClockJump: (seconds) => log.warn({ seconds }, 'the clock of the database was set; this replica follows it'),
  });
  const refusals = createRefusals();
  tail.subscribe((fact) => refusals.observe(fact));
  const { promise: declaredDead, resolve: onDeclaredDead } = Promise.withResolvers<Error>();
  const sweepServices: SweepServices = {
    ...services,
    engine,
    host,
    ingest,
    suspects: createSuspects(db, ingest),
    refusals,
    log,
    isProcessAlive,
    onDeclaredDead,
  };
  const registry = sweepRegistry(sweepServices);
  const runner = createSweepRunner({
    sweeps: composition.sweeps?.(registry, sweepServices) ?? registry,
    clock,
    onError: (name, error) => log.error({ error, sweep: name }, 'a sweep failed and will run again'),
  });
  parts.defer(() => runner.stop());
  const notWoken = onError('an operation could not be woken; it asks again by itself');
  tail.subscribe(operationWaker(db, engine, executor.replica_id, notWoken));
  tail.subscribe((fact) => runner.observe(fact));
  return { services, tracer, runner, beats, ingest, declaredDead };
}

type Operating = Awaited<ReturnType<typeof openOperations>>;

async function openApi(opening: Opening, store: OpenedStore, { services, tracer, beats, ingest, runner }: Operating) {
  const { settings, log, version, parts, onError } = opening;
  const { db, clock, tail } = store;
  const sessions = createAgentSessions(db);
  tail.subscribe((fact) => sessions.observe(fact));
  const learning = new AbortController();
  const learnt = sessions.learnAll(clock, learning.signal).catch(onError('the fleet is learned as it beats instead'));
  parts.defer(async () => {
    learning.abort();
    await learnt;
  });
  const feed = createLiveFeed({ db, tail, clock, onError: onError('the live feed lost a batch') });
  parts.defer(async () => feed.stop());
  const pool_redactors = await followSecrets(services, tail, log);
  const nodeLogs = openNodeLogs({ db, pool_redactors, clock, log, settings, limits: opening.file.logs });
  parts.defer(() => nodeLogs.stop());
  const overload = watchOverload({
    clock,
    beats,
    beat_rate: settings.beat_rate,
    onChange: (how, strain) => log.warn({ ...strain }, how),
  });
  parts.defer(async () => overload.stop());
  const limits = openLimits({ db, clock, tail, limits: opening.file.limits, onError, parts });
  const { outside } = limits;
  const agentStreams = createAgentStreams({ db, outside, clock, tail, onError: onError('a break was not recorded') });
  const served = apiSettings(settings, version, builtFiles, opening.file.operators_may);
  const connections = createConnections({
    clock,
    caps: connectionCaps(openFilesLimit()),
    proxies: served.proxies,
    onPressure: (figures) =>
      log.warn(figures, 'too many connections: those that show no credential, or idle ones, are closed'),
  });
  const checkStore = storeReadiness(store, log);
  const api: ApiServices = {
    ...services,
    log,
    settings: served,
    sessions,
    ...openTokenChecks({ db, clock, settings, onError, parts }),
    beats,
    overload,
    ...limits,
    fleetLoad: () => ({ ...ingest.listened(), beat_rate: settings.beat_rate }),
    tail,
    feed,
    places: openPlaces(),
    connections,
    agentStreams,
    credential_age: createCredentialAge(clock, opening.settings),
    tracer,
    ...nodeLogs.services,
    readiness: async () => ({ database: await checkStore() }),
    sweeps: () => runner.statuses(),
    metrics: createMetrics(db, clock, {
      ...nodeLogs.figures,
      sweeps: () => runner.statuses(),
      streams: () => feed.figures(),
      agentStreams: () => agentStreams.figures(),
      overload: () => overload.figures(),
      outside: () => outside.figures(),
      connections: () => connections.figures(),
    }),
  };
  const tls = await openTlsFiles(settings);
  const app = await createApiServer(api, tls);
  parts.defer(() => app.close());
  if (tls) parts.adopt(tls.follow(app.server, { clock: systemClock, log }), async (stop) => stop());
  parts.defer(() => agentStreams.stop());
  return { app, settings: api.settings, scheme: tls ? 'https' : 'http' };
}

/** What a test may compose otherwise, to see that a scenario fails without a rule. The product itself is always whole. */
export interface Composition {
  sweeps?(registry: Sweep[], services: SweepServices): Sweep[];
  drivers?(built: Map<string, Driver>, clock: Clock): Map<string, Driver>;
  environment?(built: TransitionEnvironment): TransitionEnvironment;
}

export async function startServer(
  settings: ServerSettings,
  log: Log,
  composition: Composition = {},
  /** The one that the log uses as well, so that both know the stored secrets. */
  redact?: LearningRedactor,
): Promise<RunningServer> {
  await using parts = new AsyncDisposableStack();
  const file = await readServerFile(settings.config);
  const opening: Opening = {
    settings,
    log,
    data_dir: resolve(settings.data_dir),
    version: await versionOf(),
    parts,
    composition,
    file,
    redact: redact ?? redactorOf(file, settings),
    onError: (what) => (error) => log.error({ error }, what),
  };
  let url = '';
  const store = await openStore(opening);
  const operating = await openOperations(opening, store, () => url);
  const { services, runner, ingest, declaredDead } = operating;
  const { app, settings: api, scheme } = await openApi(opening, store, operating);

  const { data_dir } = opening;
  await ensureAdminToken(store.db, store.clock, { data_dir, settings, log });
  if (api.allow_host_bound_pools) await ensureLocalPool(store.db, store.clock);
  await app.listen({ host: settings.host, port: settings.port });
  const bound = app.server.address();
  const port = typeof bound === 'object' && bound ? bound.port : settings.port;
  const shownHost = settings.host.includes(':') ? `[${settings.host}]` : settings.host;
  url = settings.public_url ?? `${scheme}://${shownHost}:${port}`;
  await announceReplica(store.db, services.executor.replica_id, url);
  // Only now: agents that an operation launches must find somebody at that address. And first of all we say that we hear
  // again: what we slept through must be on record before any rule looks at a clock.
  // Should that fail, no rule judges anybody until it succeeds.
  await ingest.check().catch(opening.onError('what was missed could not be recorded yet; it is tried again'));
  runner.start();
  const { replica_id } = services.executor;
  log.info({ url, replica_id, version: opening.version }, 'ready');
  const opened = parts.move();
  const lost = Promise.race([store.lost, declaredDead]);
  return { url, replica_id, admin_token_path: adminTokenPath(data_dir), lost, stop: () => opened.disposeAsync() };
}

const sameKeyMs = 1_000;

async function serve(): Promise<void> {
  const argv = process.argv.slice(2);
  if (argv.includes('--help') || argv.includes('-h')) {
    process.stdout.write(`${serverUsage()}\n`);
    return;
  }
  // Whoever read our words has gone, with its pipe: nobody is served worse for that.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  const settings = readSettings(argv, process.env);
  const redact = redactorOf(await readServerFile(settings.config), settings);
  const log = createLog({ level: settings.log_level, redact });
  const server = await startServer(settings, log, {}, redact);
  process.stdout.write(welcome(server));
  server.lost.then((reason) => {
    log.fatal({ error: reason }, 'this server must not go on');
    process.exit(1);
  });
  let stoppingSinceMs: number | undefined;
  const stop = (signal: string) => {
    const nowMs = systemClock.monotonicMs();
    if (stoppingSinceMs !== undefined) {
      // A terminal and npm both pass one Ctrl-C on; only a later signal means that somebody does not want to wait.
      if (nowMs - stoppingSinceMs > sameKeyMs) process.exit(130);
      return;
    }
    stoppingSinceMs = nowMs;
    log.info({ signal }, 'stopping');
    process.stdout.write('\n  Stopping …\n');
    server.stop().then(
      () => {
        process.stdout.write('  Stopped. Machines that are up stay up; the next start goes on with them.\n');
        process.exit(0);
      },
      (error) => {
        log.error({ error }, 'stopping failed');
        process.exit(1);
      },
    );
  };
  process.on('SIGINT', () => stop('SIGINT'));
  process.on('SIGTERM', () => stop('SIGTERM'));
}

function explainAndExit(error: unknown): void {
  process.stderr.write(`slipway: ${startFailureMessage(error)}\n`);
  process.exit(error instanceof SettingsError ? 2 : 1);
}

if (import.meta.main) serve().catch(explainAndExit);
