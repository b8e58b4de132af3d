/** Opens the watch over this replica itself, and the control of its log level. */
import { controlLogLevel } from '../api/status/log-level.ts';
import { watchServer } from '../api/status/server-watch.ts';
import { createSharedScan } from '../base/batching/shared-scan.ts';
import { now } from '../base/clock.ts';
import type { DiskSpace } from '../base/files/disk-space.ts';
import type { TlsFiles } from '../base/network/tls-files.ts';
import type { HeapWatch, Use } from '../base/process-use.ts';
import type { ReadinessCheck } from '../contract/fleet/overview.ts';
import { readOpenRestoration } from '../store/backup/restorations.ts';
import { readGrowth } from '../store/retention/growth.ts';
import { readConnectionUse, readDatabaseFacts } from '../store/rows/database-facts.ts';
import type { DiskShortage } from './disk-shortage.ts';
import type { Operating } from './open-operations.ts';
import type { OpenedStore } from './open-store.ts';
import type { Opening } from './opening.ts';

interface Measures {
  checkStore(): Promise<ReadinessCheck>;
  diskShortage: Pick<DiskShortage, 'isShort'>;
  /** Of the disk of the embedded database, or else of the data directory. */
  readSpace(): Promise<DiskSpace | null>;
  openFiles(): Use | null;
  heap: Pick<HeapWatch, 'use'>;
  tls: TlsFiles | null;
}

export function openWatch(
  { settings, log, parts }: Opening,
  { db, clock, tail, watch }: OpenedStore,
  { runner, clockStep, backups }: Operating,
  { checkStore, diskShortage, readSpace, openFiles, heap, tls }: Measures,
) {
  const started_at = now(clock);
  const serverWatch = watchServer({
    clock,
    log,
    async readFacts() {
      const database = await checkStore();
      const growth = database.ok ? await readGrowth(db, now(clock)) : null;
      return {
        at: now(clock),
        database,
        // The query would wait for a database that cannot be used.
        connections: database.ok ? await readConnectionUse(db) : null,
        is_short_of_connections: db.isShortOfConnections(),
        disk: await readSpace(),
        is_short_of_disk: diskShortage.isShort(),
        growth: growth && { ...growth, is_on_disk: settings.database_url === null },
        files: openFiles(),
        heap: heap.use(),
        certificate: tls?.validity() ?? null,
        backup: backups?.state() ?? null,
        restoration: database.ok ? ((await readOpenRestoration(db)) ?? null) : null,
        tail_lag_seconds: tail.lagMs() / 1000,
        sweeps: runner.statuses(),
        started_at,
        clock_step: clockStep(),
      };
    },
  });
  parts.defer(async () => serverWatch.stop());
  const logLevel = controlLogLevel(log, clock);
  tail.subscribe((fact) => logLevel.observe(fact));
  parts.defer(async () => logLevel.stop());
  return {
    serverWatch,
    logLevel,
    // Expensive: for the size of the database, PostgreSQL reads the size of each of its files.
    databaseFacts: createSharedScan(clock, () => readDatabaseFacts(db)),
    ownConnections: () => ({
      used: [...watch.connections().values()].reduce((sum, { open }) => sum + open, 0),
      limit: settings.database_connections,
    }),
  };
}
