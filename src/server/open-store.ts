/**
 * Opens the store: its connections and their watch, the schema, the clock and the evidence tail.
 */
import { now, systemClock } from '../base/clock.ts';
import type { LearningRedactor } from '../base/redaction/redact.ts';
import type { ServerSettings } from '../base/settings/settings.ts';
import type { Log } from '../base/telemetry/log.ts';
import { watchRestoration } from '../store/backup/restoration-watch.ts';
import { readOpenRestoration } from '../store/backup/restorations.ts';
import { recordLostHistory } from '../store/evidence/lost-history.ts';
import { startTail } from '../store/evidence/tail.ts';
import { followTaskKeys, openInstallation } from '../store/keys/installation.ts';
import { applicationRole, migrate } from '../store/migrate.ts';
import { refuseTransactionPooling } from '../store/pg/connections/pooler.ts';
import { watchStore } from '../store/pg/connections/store-watch.ts';
import { openDatabase } from '../store/pg/database.ts';
import { databaseClock } from '../store/pg/database-clock.ts';
import { startEmbeddedPostgres } from '../store/pg/embedded/embedded.ts';
import { ensureSoleServer } from '../store/pg/embedded/sole-server.ts';
import { splitConnections } from './split-connections.ts';

interface StoreOptions {
  settings: ServerSettings;
  log: Log;
  data_dir: string;
  parts: AsyncDisposableStack;
  redact: LearningRedactor;
  onError(message: string): (error: unknown) => void;
}

export type OpenedStore = Awaited<ReturnType<typeof openStore>>;

export async function openStore({ settings, log, data_dir, parts, onError, redact }: StoreOptions) {
  const watch = watchStore({
    clock: systemClock,
    onLost: (count) => log.warn({ count }, 'closed database connections that got no answer'),
  });
  parts.defer(async () => watch.stop());
  const embedded =
    settings.database_url === null
      ? await startEmbeddedPostgres({ dataDir: data_dir, clock: systemClock, log: (line) => log.info(line) })
      : null;
  parts.defer(async () => embedded?.stop());
  const owner_url = settings.owner_database_url ?? settings.database_url ?? embedded?.url ?? '';
  const db = openDatabase({
    url: settings.database_url ?? embedded?.application_url ?? '',
    redact,
    watch,
    max_connections: splitConnections(settings.database_connections).statements,
    on_idle_error: (error) => log.warn({ error }, 'an idle database connection broke'),
  });
  parts.defer(() => db.close());
  if (!embedded) for (const url of new Set([owner_url, db.url])) await refuseTransactionPooling(url);
  const { restored, newer_schema } = await migrate(owner_url, {
    application_role: () => applicationRole(db),
    is_restored: settings.restored,
    onWait: (holder) => log.warn({ ...holder }, 'another session is migrating the database; waiting for its lock'),
  });
  if (restored)
    log.warn(restored, 'the database was restored; new facts follow the restored ones in an era of their own');
  if (await readOpenRestoration(db))
    log.warn('the database was restored; this server changes no machine until you end that (slipway restoration)');
  if (newer_schema !== undefined)
    log.warn({ schema_version: newer_schema }, 'the schema is newer than this version, which may run on it');
  const clock = await databaseClock(db);
  const installation = await openInstallation(db, now(clock), clock, settings);
  if (embedded) {
    const { installation_id } = installation;
    parts.adopt(await ensureSoleServer({ installation_id, dataDir: data_dir, clock: systemClock }), async (release) =>
      release(),
    );
  }
  const tail = await startTail({ db, clock, onError: onError('the evidence could not be followed') });
  parts.defer(() => tail.stop());
  recordLostHistory({ db, clock, tail, log, onError });
  const restoration = await watchRestoration({
    db,
    clock,
    tail,
    onError: onError('could not read whether the database was restored'),
  });
  db.whenEvidence(() => tail.nudge());
  await followTaskKeys(installation, tail, onError('the task keys could not be read; housekeeping reads them again'));
  const lost = Promise.race([tail.lost, restoration.began, ...(embedded ? [embedded.lost] : [])]);
  /** Null if the database is elsewhere. */
  const database_dir = embedded?.clusterDir ?? null;
  return { owner_url, database_dir, db, watch, clock, installation, tail, restoration, lost };
}
