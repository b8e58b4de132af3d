/**
 * Builds artefacts of the version after this one: the same sources with a higher number and one
 * more migration, built by their own release script.
 */
import { cp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sourceDate } from '../../../packaging/build/archive.ts';
import { nextName, nextSql } from '../../support/next-version.ts';
import { buildRelease, newFolder, next, root } from './artefacts.ts';

/** Everything that the release script reads. */
const sourceNames = [
  'src',
  'console',
  'packaging',
  'scripts',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
].concat(['CHANGELOG.md', 'LICENSE', 'slipway.yaml']);

async function edit(file: string, change: (text: string) => string): Promise<void> {
  const text = await readFile(file, 'utf8');
  const changed = change(text);
  if (changed === text) throw new Error(`${file} has nothing to change for the next version`);
  await writeFile(file, changed);
}

const stepsTable = /(export const migrationSteps[^=]*= \{\n)/;
const nextStep = `  '${nextName}': { step: 'expand', effects: [...blocksAll('catalog', 'nodes')] },\n`;

async function writeNextSources(folder: string): Promise<void> {
  for (const name of sourceNames) await cp(join(root, name), join(folder, name), { recursive: true });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  // npm compares the versions in the two files. The first version in package.json is Slipway's.
  await edit(join(folder, 'package.json'), (text) =>
    text.replace(/"version": "[^"]+"/, `"version": "${next.version}"`),
  );
  await edit(join(folder, 'package-lock.json'), (text) => {
    const lock = JSON.parse(text);
    lock.version = next.version;
    lock.packages[''].version = next.version;
    return JSON.stringify(lock);
  });
  await writeFile(join(folder, 'src/store/migrations', nextName), nextSql);
  await edit(join(folder, 'src/store/upgrade/migration-steps.ts'), (text) => text.replace(stepsTable, `$1${nextStep}`));
}

/** The folder of the artefacts, like that of `buildRelease`. */
export async function buildNextRelease(artefacts: string[], env: Record<string, string> = {}): Promise<string> {
  const sources = await newFolder();
  try {
    await writeNextSources(sources);
    // The copy has no history to take the date from.
    const date = String(sourceDate().getTime() / 1000);
    return await buildRelease(artefacts, { sources, env: { SOURCE_DATE_EPOCH: date, ...env } });
  } finally {
    await rm(sources, { recursive: true, force: true });
  }
}
