/** Empties the folder of a release. It deletes only what an earlier release wrote there. */
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { manifest } from './paths.ts';
import { signatureFiles } from './signature.ts';

/** The folder of unfinished parts, which a killed release leaves behind. */
export const stagingName = '.staging';

const artefact = new RegExp(`^${manifest.name}[-_]\\d+\\..*\\.(tgz|tar\\.gz|deb|cdx\\.json)$`);

const others = ['SHA256SUMS', stagingName, ...Object.values(signatureFiles)];

const isWritten = (name: string): boolean => others.includes(name) || artefact.test(name);

/** Throws and deletes nothing if the folder has any other file, as a home directory has. */
export function emptyOutput(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const names = readdirSync(folder);
  const other = names.find((name) => !isWritten(name));
  if (other !== undefined)
    throw new Error(`${folder} has files that are not of a release, like ${other}. Name an empty folder with --into.`);
  for (const name of names) rmSync(join(folder, name), { recursive: true });
}
