/**
 * Starts the PostgreSQL of a test run in its own directory and creates the template that every test
 * file clones (template.ts, database.ts).
 */
import { existsSync, statfsSync, statSync } from 'node:fs';
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { systemClock } from '../../../src/base/clock.ts';
import { application } from '../../../src/store/pg/embedded/cluster.ts';
import { startEmbeddedPostgres } from '../../../src/store/pg/embedded/embedded.ts';
import { findPostmaster, isProcessAlive, stopPostmaster } from '../../../src/store/pg/embedded/postmaster.ts';
import { volatileSettings } from '../../../src/store/pg/embedded/settings.ts';
import { execute } from '../database.ts';
import { createTemplate } from './template.ts';

const prefix = 'slipway-test-run-';

/**
 * A run creates and drops hundreds of databases of a thousand files each. A RAM disk saves a tenth
 * of the CPU time. Nothing needs to outlive the run.
 */
const memoryDirectory = '/dev/shm';
const enoughBytes = 4 * 2 ** 30;
const hasRoom = (path: string) => {
  if (!existsSync(path)) return false;
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize > enoughBytes;
};
const runsDirectory = () => (hasRoom(memoryDirectory) ? memoryDirectory : tmpdir());

/**
 * The URL of a PostgreSQL that another program started for this run, such as an older version
 * (test/outsiders/postgresql.test.ts).
 */
const externalUrl = process.env.SLIPWAY_TEST_POSTGRES_URL;

async function useExternalPostgres(project: TestProject, url: string): Promise<void> {
  const { host } = new URL(url);
  await execute(url, `CREATE ROLE ${application} LOGIN PASSWORD 'application'`);
  await createTemplate(url);
  project.provide('postgresUrl', url);
  project.provide('applicationUrl', `postgres://${application}:application@${host}/postgres`);
  project.provide('cloneStrategy', '');
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (externalUrl) {
    await useExternalPostgres(project, externalUrl);
    return async () => {};
  }
  for (const parentDirectory of [tmpdir(), memoryDirectory].filter((path) => existsSync(path)))
    await removeAbandonedRuns(parentDirectory);
  const dataDir = await mkdtemp(join(runsDirectory(), `${prefix}${process.pid}-`));
  // When the tests run as root, PostgreSQL runs as another user, which must enter the directory.
  await chmod(dataDir, 0o711);
  const postgres = await startEmbeddedPostgres({
    dataDir,
    clock: systemClock,
    settings: { ...volatileSettings, ...quickPasswords, max_connections: '400' },
  });
  await hashQuickly(postgres.url);
  await createTemplate(postgres.url);
  project.provide('postgresUrl', postgres.url);
  project.provide('applicationUrl', postgres.application_url);
  project.provide('cloneStrategy', 'STRATEGY file_copy');
  return async () => {
    await postgres.stop();
    await rm(postgres.clusterDir, { recursive: true, force: true });
    await rm(dataDir, { recursive: true, force: true });
  };
}

/**
 * A run connects thousands of times, and each connection hashes a password. One iteration instead
 * of thousands is enough here.
 */
const quickPasswords = { scram_iterations: '1' };

/** The owner's password was hashed when the cluster was created, before this setting applied. */
async function hashQuickly(url: string): Promise<void> {
  const { username, password } = new URL(url);
  await execute(url, `ALTER ROLE ${username} PASSWORD '${password}'`);
}

/**
 * A killed run leaves its PostgreSQL running. No later run adopts it, so it is stopped and removed.
 */
async function removeAbandonedRuns(parentDirectory: string): Promise<void> {
  for (const name of await readdir(parentDirectory)) {
    if (!name.startsWith(prefix) || isProcessAlive(Number.parseInt(name.slice(prefix.length), 10))) continue;
    // Skip runs of other users, and directories that were removed since they were listed.
    if (statSync(join(parentDirectory, name), { throwIfNoEntry: false })?.uid !== process.getuid?.()) continue;
    const clusterDir = join(parentDirectory, name, 'postgres');
    const postmaster = existsSync(clusterDir) ? findPostmaster(clusterDir) : undefined;
    if (postmaster) await stopPostmaster(postmaster.pid, systemClock);
    await rm(join(parentDirectory, name), { recursive: true, force: true });
  }
}
