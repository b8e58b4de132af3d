/** The embedded PostgreSQL with its production settings, in a directory of its own, with a database per fleet. */
import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { systemClock } from '../src/base/clock.ts';
import { type Database, openDatabase } from '../src/store/database.ts';
import { migrate } from '../src/store/migrate.ts';
import { startEmbeddedPostgres } from '../src/store/postgres/embedded.ts';
import { freshDirectory, removeDirectory } from './server-process.ts';

export interface BenchServer {
  /** The process that listens; its children do the work. */
  pid: number;
  /** Migrated, and with nothing in it. */
  database(name: string): Promise<Database>;
  stop(): Promise<void>;
}

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
  const postgres = await startEmbeddedPostgres({ dataDir: directory, clock: systemClock });
  const opened: Database[] = [];
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    await Promise.all(opened.map((db) => db.close()));
    await postgres.stop();
    await removeDirectory(postgres.clusterDir);
    await removeDirectory(directory);
  };
  const stopOnce = () => (stopping ??= stop());
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => stopOnce().finally(() => process.exit(1)));
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
    stop: stopOnce,
  };
}
