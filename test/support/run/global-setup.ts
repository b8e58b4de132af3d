/**
 * Starts the one PostgreSQL of a test run, in a directory of its own, and makes the template from which every test file
 * clones its database (template.ts, database.ts).
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
 * A run makes and drops hundreds of databases of a thousand files each. In memory, where there is plenty of it, that costs the
 * processors a tenth less; nothing here outlives the run anyway.
 */
const memoryDirectory = '/dev/shm';
const enoughBytes = 4 * 2 ** 30;
const hasRoom = (path: string) => {
  if (!existsSync(path)) return false;
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize > enoughBytes;
};
const runsDirectory = () => (hasRoom(memoryDirectory) ? memoryDirectory : tmpdir());

/** Another PostgreSQL that somebody started for the run, such as an older version (test/outsiders/postgresql.test.ts). */
const givenUrl = process.env.SLIPWAY_TEST_POSTGRES_URL;

async function useGiven(project: TestProject, url: string): Promise<void> {
  const { host } = new URL(url);
  await execute(url, `CREATE ROLE ${application} LOGIN PASSWORD 'application'`);
  await createTemplate(url);
  project.provide('postgresUrl', url);
  project.provide('applicationUrl', `postgres://${application}:application@${host}/postgres`);
  project.provide('cloneStrategy', '');
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (givenUrl) {
    await useGiven(project, givenUrl);
    return async () => {};
  }
  for (const runs of [tmpdir(), memoryDirectory].filter((path) => existsSync(path))) await removeAbandonedRuns(runs);
  const dataDir = await mkdtemp(join(runsDirectory(), `${prefix}${process.pid}-`));
  // Entered by the unprivileged account too, when the tests run as root.
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

/** A run connects thousands of times. So that a stolen hash is of no use, a password is hashed thousands of times with each; here nothing is stolen. */
const quickPasswords = { scram_iterations: '1' };

/** The owner's was hashed when the cluster was made, before there were settings. */
async function hashQuickly(url: string): Promise<void> {
  const { username, password } = new URL(url);
  await execute(url, `ALTER ROLE ${username} PASSWORD '${password}'`);
}

/** A run that was killed leaves its PostgreSQL alive, as it should; here nobody will ever come back for it. */
async function removeAbandonedRuns(runs: string): Promise<void> {
  for (const name of await readdir(runs)) {
    if (!name.startsWith(prefix) || isProcessAlive(Number.parseInt(name.slice(prefix.length), 10))) continue;
    // Another user's run, or one that is being removed by its own process this moment.
    if (statSync(join(runs, name), { throwIfNoEntry: false })?.uid !== process.getuid?.()) continue;
    const clusterDir = join(runs, name, 'postgres');
    const postmaster = existsSync(clusterDir) ? findPostmaster(clusterDir) : undefined;
    if (postmaster) await stopPostmaster(postmaster.pid, systemClock);
    await rm(join(runs, name), { recursive: true, force: true });
  }
}
