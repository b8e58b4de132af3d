/** Migrates a database as the version after this one would, with one more migration. */
import { copyFile, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../../src/base/files/package-root.ts';
import { migrate } from '../../src/store/migrate.ts';
import { knownSchema, type MigrationStep, migrationSteps } from '../../src/store/upgrade/migration-steps.ts';

const ownFolder = join(packageRoot, 'src/store/migrations');
export const nextVersion = 9000;
export const nextName = `${nextVersion}-next.sql`;
export const nextSql = 'alter table nodes add column extra text';

export const expandStep: MigrationStep = { step: 'expand', effects: [] };
export const contractStep: MigrationStep = {
  step: 'contract',
  effects: [],
  runs_from: knownSchema + 1,
  breaks: ['nodes.zone'],
};

/** A folder with the migrations of the next version, and their steps. */
export async function nextMigrations(step: MigrationStep) {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-next-'));
  for (const name of await readdir(ownFolder)) await copyFile(join(ownFolder, name), join(folder, name));
  await writeFile(join(folder, nextName), nextSql);
  return {
    folder,
    steps: { ...migrationSteps, [nextName]: step },
    remove: () => rm(folder, { recursive: true }),
  };
}

export async function migrateAsNext(url: string, step: MigrationStep) {
  const { remove, ...next } = await nextMigrations(step);
  try {
    return await migrate(url, next);
  } finally {
    await remove();
  }
}
