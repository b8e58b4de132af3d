/** Starts one server process: opens every part in order, listens, then starts the sweeps. */
import { resolve } from 'node:path';
import { pause, systemClock } from '../base/clock.ts';
import { packageVersion } from '../base/files/package-root.ts';
import { createRedactor, type LearningRedactor } from '../base/redaction/redact.ts';
import type { ServerSettings } from '../base/settings/settings.ts';
import type { Log } from '../base/telemetry/log.ts';
import { readServerFile, type ServerFileSettings } from '../contract/server-file.ts';
import {
  type AdminTokenState,
  adminTokenPath,
  ensureAdminToken,
  ensureLocalPool,
} from '../operations/runtime/server-start.ts';
import { announceReplica } from '../store/operations/replicas.ts';
import { openApi } from './open-api.ts';
import { openOperations } from './open-operations.ts';
import { openStore } from './open-store.ts';
import type { Composition, Opening } from './opening.ts';
import { createFileReload } from './reload-file.ts';

/** Redacts the built-in patterns, those of the settings file, and the admin token. */
export const createServerRedactor = (
  { redact }: ServerFileSettings,
  { admin_token }: ServerSettings,
): LearningRedactor => createRedactor(redact.patterns, admin_token === null ? [] : [admin_token]);

export interface RunningServer {
  url: string;
  replica_id: string;
  admin_token_path: string;
  admin_token: AdminTokenState;
  /** Resolves with the reason when this server must stop; the caller then ends the process. */
  lost: Promise<Error>;
  /** Reads the settings file again. Logs what changed, and what needs a restart. */
  reload(): Promise<void>;
  /**
   * Makes `/readyz` answer 503 and hands the operations over to another replica. Resolves after the
   * drain time. The server serves requests until `stop`.
   */
  drain(): Promise<void>;
  stop(): Promise<void>;
}

interface StartOptions {
  /** Pass the log's redactor, so that the stored secrets are redacted in the log too. */
  redact?: LearningRedactor;
  /** Aborts the start before the next part opens; the opened parts are closed. */
  signal?: AbortSignal;
}

export async function startServer(
  settings: ServerSettings,
  log: Log,
  composition: Composition = {},
  { redact, signal }: StartOptions = {},
): Promise<RunningServer> {
  await using parts = new AsyncDisposableStack();
  const file = await readServerFile(settings.config);
  const opening: Opening = {
    settings,
    log,
    data_dir: resolve(settings.data_dir),
    version: packageVersion(),
    parts,
    composition,
    file,
    redact: redact ?? createServerRedactor(file, settings),
    onError: (message) => (error) => log.error({ error }, message),
  };
  let url = '';
  let isDraining = false;
  const store = await openStore(opening);
  signal?.throwIfAborted();
  const operating = await openOperations(opening, store, () => url);
  signal?.throwIfAborted();
  const { services, runner, ingest, handOver } = operating;
  const { app, settings: api, scheme } = await openApi(opening, store, operating, () => isDraining);
  signal?.throwIfAborted();

  const { data_dir } = opening;
  const admin_token = await ensureAdminToken(store.db, store.clock, { data_dir, settings, log });
  if (api.allow_host_bound_pools) await ensureLocalPool(store.db, store.clock);
  await app.listen({ host: settings.host, port: settings.port });
  const bound = app.server.address();
  const port = typeof bound === 'object' && bound ? bound.port : settings.port;
  const shownHost = settings.host.includes(':') ? `[${settings.host}]` : settings.host;
  url = settings.public_url ?? `${scheme}://${shownHost}:${port}`;
  await announceReplica(store.db, services.executor.replica_id, url);
  // Sweeps start last for two reasons. Agents that an operation launches need a server at this
  // address. And the gap since the last run must be recorded before a rule decides anything; if
  // recording fails, rules wait until it succeeds.
  await ingest.check().catch(opening.onError('the gap since the last run was not recorded; retrying'));
  signal?.throwIfAborted();
  runner.start();
  operating.backups?.start();
  const { replica_id } = services.executor;
  log.info({ url, replica_id, version: opening.version }, 'ready');
  const opened = parts.move();
  const lost = Promise.race([store.lost, operating.lost]);
  const reload = createFileReload({
    path: settings.config,
    started: file,
    log,
    apply({ operators_may, ...sections }) {
      Object.assign(services.environment, sections);
      api.operators_may = operators_may;
    },
  });
  return {
    url,
    replica_id,
    admin_token_path: adminTokenPath(data_dir),
    admin_token,
    lost,
    reload,
    async drain() {
      isDraining = true;
      const drained = pause(systemClock, 1000 * settings.drain_seconds);
      await handOver().catch(
        opening.onError('the operations were not handed over; another replica takes them over later'),
      );
      await drained;
    },
    stop: () => opened.disposeAsync(),
  };
}
