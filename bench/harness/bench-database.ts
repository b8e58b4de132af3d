/**
 * The embedded PostgreSQL with production settings in its own directory, with a database per fleet.
 */
import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { pause, systemClock } from '../../src/base/clock.ts';
import { migrate } from '../../src/store/migrate.ts';
import { type Database, openDatabase } from '../../src/store/pg/database.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/store/pg/embedded/embedded.ts';
import { freshDirectory, removeDirectory, whenOver } from './leftovers.ts';

export interface BenchServer {
  /** The postmaster; its children do the work. */
  pid: number;
  /** A migrated, empty database. */
  database(name: string): Promise<Database>;
  stop(): Promise<void>;
}

const closeWithinMs = 2_000;

async function refuseFullDisk(neededGb: number): Promise<void> {
  const { bavail, bsize } = await statfs(tmpdir());
  const freeGb = (bavail * bsize) / 2 ** 30;
  if (freeGb < neededGb) {
    throw new Error(
      `${tmpdir()} has ${freeGb.toFixed(1)} GB left and this needs ${neededGb}: make room, set TMPDIR, or use --quick`,
    );
  }
}

export async function startBenchServer(neededGb: number): Promise<BenchServer> {
  await refuseFullDisk(neededGb);
  const directory = await freshDirectory();
  const opened: Database[] = [];
  let starting: Promise<EmbeddedPostgres> | undefined;
  const stop = whenOver(async () => {
    const postgres = await starting;
    // Do not wait for running statements: stopping the database cancels them.
    await Promise.race([Promise.all(opened.map((db) => db.close())), pause(systemClock, closeWithinMs)]);
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
      opened.push(db);
      return db;
    },
    stop,
  };
}
