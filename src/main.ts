/** The composition root of the server: the only place that joins concrete parts. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { homedir, hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createLiveFeed } from './api/live-feed.ts';
import { createLogArrivals } from './api/log-arrivals.ts';
import { createMetrics } from './api/metrics.ts';
import { createApiServer } from './api/server.ts';
import type { ApiServices } from './api/services.ts';
import { now, secondsLater, systemClock } from './base/clock.ts';
import { hostIdentity, isProcessAlive } from './base/host.ts';
import { newReplicaId } from './base/ids.ts';
import { createLog, type Log } from './base/log.ts';
import { isLoopback, readSettings, type ServerSettings, SettingsError, serverUsage } from './base/settings.ts';
import type { Driver } from './drivers/driver.ts';
import { createExternalDriver } from './drivers/external/external-driver.ts';
import { createLocalDriver } from './drivers/local/local-driver.ts';
import { createDbosEngine } from './engine/dbos-engine.ts';
import { defaultRuntimeClasses } from './lifecycle/budgets.ts';
import { engineListener } from './operations/engine-listener.ts';
import { ensureAdminToken, ensureLocalPool } from './operations/first-start.ts';
import { operationRegistry } from './operations/registry.ts';
import type { OperationServices } from './operations/services.ts';
import { createAgentSessions } from './store/agent-sessions.ts';
import { openDatabase } from './store/database.ts';
import { databaseClock } from './store/database-clock.ts';
import { createHeartbeatBuffer } from './store/heartbeat-buffer.ts';
import { openInstallation } from './store/installation.ts';
import { isRevoked } from './store/instances.ts';
import { migrate } from './store/migrate.ts';
import { startEmbeddedPostgres } from './store/postgres/embedded.ts';
import { EmbeddedPostgresError } from './store/postgres/embedded-error.ts';
import { endReplica, leaseSeconds, registerReplica } from './store/replicas.ts';
import { startTail } from './store/tail.ts';
import { operationWaker } from './sweeps/operation-waker.ts';
import { sweepRegistry } from './sweeps/registry.ts';
import { createSweepRunner } from './sweeps/runner.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

async function versionOf(): Promise<string> {
  return (JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }).version;
}

const nodesDir = (settings: ServerSettings, data_dir: string, installation_id: string): string => {
  if (settings.nodes_dir) return resolve(settings.nodes_dir);
  return settings.database_url === null ? join(data_dir, 'nodes') : sharedNodesDir(installation_id);
};

/** Replicas of one database on one host take over each other's local nodes, so they look for them in the same place. */
const sharedNodesDir = (installation_id: string): string =>
  process.getuid?.() === 0
    ? join('/var/lib/slipway/nodes', installation_id)
    : join(homedir(), '.local/state/slipway/nodes', installation_id);

export interface RunningServer {
  url: string;
  replica_id: string;
  admin_token_path: string;
  stop(): Promise<void>;
}

export async function startServer(settings: ServerSettings, log: Log): Promise<RunningServer> {
  const version = await versionOf();
  const data_dir = resolve(settings.data_dir);
  const embedded =
    settings.database_url === null
      ? await startEmbeddedPostgres({ dataDir: data_dir, clock: systemClock, log: (line) => log.info(line) })
      : null;
  const database_url = settings.database_url ?? embedded?.url ?? '';
  await migrate(database_url);
  const db = openDatabase({
    url: database_url,
    on_idle_error: (error) => log.warn({ error }, 'an idle database connection broke'),
  });
  const clock = await databaseClock(db);
  const installation = await openInstallation(db, now(clock));
  const onError = (what: string) => (error: unknown) => log.error({ error }, what);

  const host = hostIdentity();
  let url = '';
  const replica_id = newReplicaId(clock);
  const executor = await registerReplica(db, {
    replica_id,
    host,
    pid: process.pid,
    address: `${settings.host}:${settings.port}`,
    version,
    started_at: now(clock),
    lease_until: secondsLater(now(clock), leaseSeconds),
  });

  const drivers = new Map<string, Driver>();
  const local = createLocalDriver({
    nodes_dir: nodesDir(settings, data_dir, installation.installation_id),
    agent_command: [process.execPath, join(root, 'dist', 'agent.mjs')],
    host_id: hostname(),
    clock,
    log: (message, facts) => log.info(facts, message),
  });
  const external = createExternalDriver({ revoked: (id) => isRevoked(db, id) });
  for (const driver of [local, external]) drivers.set(driver.name, driver);

  const operationServices: OperationServices = {
    db,
    clock,
    environment: { runtime_classes: defaultRuntimeClasses },
    installation,
    executor,
    drivers,
    server_url: () => url,
    cancelRun: async (workflow_id, attempt) => {
      await engine.cancel(workflow_id as never, attempt);
    },
  };
  const engine = createDbosEngine({
    connectionString: database_url,
    clock,
    executor_id: replica_id,
    listener: engineListener(() => operationServices),
    log,
  });
  for (const definition of operationRegistry(operationServices)) engine.register(definition);
  await engine.launch();

  const tail = await startTail({ db, clock, onError: onError('the evidence could not be followed') });
  db.whenEvidence(() => tail.nudge());
  const sessions = createAgentSessions(db);
  const beats = createHeartbeatBuffer(
    db,
    clock,
    onError('heartbeats could not be stored; they are kept and tried again'),
  );
  const feed = createLiveFeed({ db, tail, clock, onError: onError('the live feed lost a batch') });
  const runner = createSweepRunner({
    sweeps: sweepRegistry({ ...operationServices, engine, host, isProcessAlive }),
    clock,
    onError: (name, error) => log.error({ error, sweep: name }, 'a sweep failed and will run again'),
  });
  const waker = operationWaker(
    db,
    engine,
    replica_id,
    onError('an operation could not be woken; it asks again by itself'),
  );
  tail.subscribe((fact) => {
    sessions.observe(fact);
    runner.observe(fact);
    waker(fact);
  });

  const loopback = isLoopback(settings.host);
  const console_dir = join(root, 'dist', 'console');
  const api: ApiServices = {
    ...operationServices,
    log,
    settings: {
      version,
      loopback_only: loopback && !settings.behind_proxy,
      behind_proxy: settings.behind_proxy,
      allow_host_bound_pools: loopback || settings.allow_local_driver,
      secure_cookies: settings.tls_cert !== null || settings.behind_proxy,
      console_dir: existsSync(join(console_dir, 'index.html')) ? console_dir : null,
    },
    sessions,
    beats,
    tail,
    feed,
    arrivals: createLogArrivals(clock),
    readiness: async () => {
      await db.query('select 1');
      return { database: { ok: true, detail: null } };
    },
    metrics: createMetrics(db, () => runner.statuses()),
  };
  const tls =
    settings.tls_cert && settings.tls_key
      ? { cert: await readFile(settings.tls_cert), key: await readFile(settings.tls_key) }
      : null;
  const app = await createApiServer(api, tls);
  const admin_token_path = join(data_dir, 'admin.token');
  await ensureAdminToken(db, clock, admin_token_path, settings.admin_token);
  if (api.settings.allow_host_bound_pools) await ensureLocalPool(db, clock);

  await app.listen({ host: settings.host, port: settings.port });
  const bound = app.server.address();
  const port = typeof bound === 'object' && bound ? bound.port : settings.port;
  const shownHost = settings.host.includes(':') ? `[${settings.host}]` : settings.host;
  url = settings.public_url ?? `${tls ? 'https' : 'http'}://${shownHost}:${port}`;
  runner.start();
  log.info({ url, replica_id, version }, 'ready');

  return {
    url,
    replica_id,
    admin_token_path,
    async stop() {
      await app.close();
      await runner.stop();
      feed.stop();
      await beats.stop();
      await tail.stop();
      await engine.shutdown();
      await endReplica(db, executor.replica_id, now(clock));
      await db.close();
      await embedded?.stop();
    },
  };
}

function welcome(server: RunningServer): string {
  return [
    '',
    '  Slipway is ready.',
    '',
    `  Console   ${server.url}`,
    `  Sign in   with the token in ${server.admin_token_path}`,
    '',
    '  Try       ./bin/slipway allocate --pool local --wait',
    '  Stop      Ctrl-C',
    '',
  ].join('\n');
}

async function serve(): Promise<void> {
  const argv = process.argv.slice(2);
  if (argv.includes('--help') || argv.includes('-h')) {
    process.stdout.write(`${serverUsage()}\n`);
    return;
  }
  const settings = readSettings(argv, process.env);
  const log = createLog({ level: settings.log_level });
  const server = await startServer(settings, log);
  process.stdout.write(welcome(server));
  let stopping = false;
  const stop = (signal: string) => {
    // A second signal means that somebody does not want to wait.
    if (stopping) process.exit(130);
    stopping = true;
    log.info({ signal }, 'stopping');
    server.stop().then(
      () => process.exit(0),
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
  if (error instanceof SettingsError) process.stderr.write(`slipway: ${error.message}\n\n${serverUsage()}\n`);
  else if (error instanceof EmbeddedPostgresError)
    process.stderr.write(`slipway: ${error.message}\n  ${error.remedy}\n`);
  else
    process.stderr.write(
      `slipway: could not start: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    );
  process.exit(error instanceof SettingsError ? 2 : 1);
}

if (import.meta.main) serve().catch(explainAndExit);
