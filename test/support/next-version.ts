/**
 * Stands for the version after this one: migrates a database with one more migration, or copies the
 * programs with a higher version and more migrations. The rest of their code is that of this
 * version.
 */
import { copyFile, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot, packageVersion } from '../../src/base/files/package-root.ts';
import { migrate } from '../../src/store/migrate.ts';
import { knownSchema, type MigrationStep, migrationSteps } from '../../src/store/upgrade/migration-steps.ts';
import { windowMinors } from '../../src/store/upgrade/releases.ts';

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

/** The last version on whose schema a server of this version still runs. */
export function lastVersionInWindow(): string {
  const [major, minor] = packageVersion().split('.').map(Number);
  return `${major}.${(minor ?? 0) + windowMinors}.0`;
}

async function edit(from: string, to: string, before: string, after: string): Promise<void> {
  const text = await readFile(from, 'utf8');
  if (!text.includes(before)) throw new Error(`${from} does not contain ${before}`);
  await writeFile(to, text.replaceAll(before, after));
}

const isTest = (path: string) => path.includes('.test.');
const beginOfSteps = 'migrationSteps: Readonly<Record<string, MigrationStep>> = {';

export type NextMigrations = Readonly<Record<string, { sql: string; step: MigrationStep }>>;

/** Copies this version as `lastVersionInWindow()`, with these further migrations. */
export async function copyAsNextVersion(directory: string, migrations: NextMigrations): Promise<void> {
  const inCopy = (path: string) => join(directory, path);
  const inPackage = (path: string) => join(packageRoot, path);
  const setVersion = (path: string) =>
    edit(inPackage(path), inCopy(path), JSON.stringify(packageVersion()), JSON.stringify(lastVersionInWindow()));
  await mkdir(inCopy('dist'), { recursive: true });
  for (const folder of ['src', 'bin'])
    await cp(inPackage(folder), inCopy(folder), { recursive: true, filter: (path) => !isTest(path) });
  for (const folder of ['node_modules', 'dist/console']) await symlink(inPackage(folder), inCopy(folder));
  for (const file of ['package.json', 'dist/agent.mjs']) await setVersion(file);
  for (const [name, { sql }] of Object.entries(migrations))
    await writeFile(inCopy(`src/store/migrations/${name}`), sql);
  const steps = Object.entries(migrations).map(
    ([name, { step }]) => `${JSON.stringify(name)}: ${JSON.stringify(step)},`,
  );
  const table = inCopy('src/store/upgrade/migration-steps.ts');
  await edit(table, table, beginOfSteps, [beginOfSteps, ...steps].join('\n'));
}
