/**
 * Starts the embedded PostgreSQL with production settings in a temporary directory, and creates
 * databases in it.
 */
import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { pause, systemClock } from '../../src/base/clock.ts';
import { migrate } from '../../src/store/migrate.ts';
import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/store/pg/embedded/embedded.ts';
import { freshDirectory, registerCleanup, removeDirectory } from './leftovers.ts';

export interface BenchServer {
  /** The process id of the postmaster; its child processes do the work. */
  pid: number;
  /** Creates a migrated, empty database. */
  database(name: string): Promise<Database>;
  stop(): Promise<void>;
}

const closeTimeoutMs = 2_000;

async function refuseFullDisk(neededGb: number): Promise<void> {
  const { bavail, bsize } = await statfs(tmpdir());
  const freeGb = (bavail * bsize) / 2 ** 30;
  if (freeGb < neededGb) {
    throw new Error(
      `${tmpdir()} has ${freeGb.toFixed(1)} GB free, and this benchmark needs ${neededGb} GB: free some space, set TMPDIR, or use --quick`,
    );
  }
}

export async function startBenchServer(neededGb: number): Promise<BenchServer> {
  await refuseFullDisk(neededGb);
  const directory = await freshDirectory();
  const openDatabases: Database[] = [];
  let starting: Promise<EmbeddedPostgres> | undefined;
  const stop = registerCleanup(async () => {
    const postgres = await starting;
    // A running statement delays `close`; stopping the database cancels it, so do not wait long.
    await Promise.race([Promise.all(openDatabases.map((db) => db.close())), pause(systemClock, closeTimeoutMs)]);
    await postgres?.stop();
    if (postgres) await removeDirectory(postgres.clusterDir);
    await removeDirectory(directory);
  });
  starting = startEmbeddedPostgres({ dataDir: directory, clock: systemClock });
  const postgres = await starting;
  return {
    pid: postgres.pid,
    async database(name) {
      const main = openDatabase({ url: postgres.url, max_connections: 1 });
      await main.query(`create database ${name}`);
      await main.close();
      const url = new URL(postgres.url);
      url.pathname = `/${name}`;
      await migrate(url.href);
      const db = openDatabase({ url: url.href });
      openDatabases.push(db);
      return db;
    },
    stop,
  };
}
