/** Opens the database that a command names, and starts the embedded one if it does not run. */
import { systemClock } from '../base/clock.ts';
import { BackupRefused } from '../store/backup/refusal.ts';
import { findRunningDatabase, hasCluster, startEmbeddedPostgres } from '../store/pg/embedded/embedded.ts';
import type { DatabasePlace } from './options.ts';

export interface OpenPlace {
  /** The URL of the database, as the owner of its tables. */
  url: string;
  close(): Promise<void>;
}

type Log = (line: string) => void;

async function startDatabase(dataDir: string, log: Log): Promise<OpenPlace> {
  const postgres = await startEmbeddedPostgres({ dataDir, clock: systemClock, log });
  return { url: postgres.url, close: () => postgres.stop() };
}

const leaveOpen = async (): Promise<void> => {};

function requireCluster(dataDir: string): void {
  if (hasCluster(dataDir)) return;
  throw new BackupRefused('database_missing', `There is no database in ${dataDir}`, {
    why: 'No server ever ran on this data directory, or it used another database.',
    remedy: 'Name the data directory with --data-dir, or the database with --database-url.',
  });
}

/** Opens a database to read. A server may run on it. */
export async function openSource({ url, data_dir }: DatabasePlace, log: Log): Promise<OpenPlace> {
  if (url !== null) return { url, close: leaveOpen };
  requireCluster(data_dir);
  const running = await findRunningDatabase(data_dir);
  return running === undefined ? startDatabase(data_dir, log) : { url: running, close: leaveOpen };
}

/**
 * Opens an embedded database to read. Fails while a server runs on it, and keeps servers from
 * starting on it until `close`.
 */
export async function openStopped(data_dir: string, log: Log): Promise<OpenPlace> {
  requireCluster(data_dir);
  return startDatabase(data_dir, log);
}

/**
 * Opens a database to load. An embedded one is created if it is missing; no server may run on it.
 */
export const openTarget = async ({ url, data_dir }: DatabasePlace, log: Log): Promise<OpenPlace> =>
  url !== null ? { url, close: leaveOpen } : startDatabase(data_dir, log);
