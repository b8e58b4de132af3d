/**
 * Counts the packages of this installation by licence. A release has the counts in a file that its
 * build writes; a clone has its package lock.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from './package-root.ts';

export interface Licences {
  packages: number;
  /** The number of packages by SPDX expression, the most frequent first. */
  counts: Record<string, number>;
  /** The path of the file that lists every package with its licence. */
  list: string;
}

export interface PackageLicence {
  name: string;
  licence: string;
}

/** The file of a release, written by packaging/build/tree.ts. */
export const licencesFile = 'licences.json';
export const noticesFile = 'THIRD-PARTY-NOTICES';
const lockFile = 'package-lock.json';

export const notStated = 'not stated';

interface LockedPackage {
  license?: string;
  dev?: boolean;
  link?: boolean;
}

interface StatedLicence {
  license?: string;
  /** The former form, which npm leaves out of the lock. */
  licenses?: { type: string }[];
}

export const countLicences = (packages: PackageLicence[]): Omit<Licences, 'list'> => {
  const counts = new Map<string, number>();
  for (const { licence } of packages) counts.set(licence, (counts.get(licence) ?? 0) + 1);
  const sorted = [...counts].toSorted(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
  return { packages: packages.length, counts: Object.fromEntries(sorted) };
};

const readJson = async <T>(path: string): Promise<T> => JSON.parse(await readFile(path, 'utf8')) as T;

/** The licence that a package states in its manifest. */
export async function statedLicence(directory: string): Promise<string> {
  const manifest = join(directory, 'package.json');
  if (!existsSync(manifest)) return notStated;
  const { license, licenses = [] } = await readJson<StatedLicence>(manifest);
  return license ?? (licenses.map(({ type }) => type).join(' OR ') || notStated);
}

/** The packages of the product in the lock of a clone, without those for development. */
export async function lockedLicences(root: string): Promise<PackageLicence[]> {
  const { packages } = await readJson<{ packages: Record<string, LockedPackage> }>(join(root, lockFile));
  const own = Object.entries(packages).filter(
    ([path, { dev, link }]) => path.includes('node_modules/') && !dev && !link,
  );
  return Promise.all(
    own.map(async ([path, { license }]) => ({
      name: path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length),
      licence: license ?? (await statedLicence(join(root, path))),
    })),
  );
}

/** Null if the installation has neither file, for example a bundle that was copied by hand. */
export async function readLicences(root: string): Promise<Licences | null> {
  const written = join(root, licencesFile);
  if (existsSync(written))
    return { ...(await readJson<Omit<Licences, 'list'>>(written)), list: join(root, noticesFile) };
  if (!existsSync(join(root, lockFile))) return null;
  return { ...countLicences(await lockedLicences(root)), list: join(root, lockFile) };
}

let known: Promise<Licences | null> | undefined;

/**
 * Reads at the first call, because a start must not wait for it. Resolves to null while the files
 * cannot be read, for example without a free file descriptor; the next call tries again.
 */
export async function installedLicences(read = () => readLicences(packageRoot)): Promise<Licences | null> {
  known ??= read();
  try {
    return await known;
  } catch {
    known = undefined;
    return null;
  }
}
