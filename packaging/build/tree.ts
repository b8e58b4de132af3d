/** Assembles the files that every artefact has in common: the content of the npm package. */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { countLicences, licencesFile, noticesFile } from '../../src/base/files/licences.ts';
import { refuseLicences } from './allowed-licences.ts';
import { buildConsole } from './console.ts';
import { manifest, readJson, root } from './paths.ts';
import { buildPrograms } from './programs.ts';
import { licencesOf, noticesOf, packagesOf, type ShippedPackage } from './shipped-packages.ts';

/** `private` keeps `npm publish` from publishing a package under a name that we do not own. */
const packageManifest = {
  name: manifest.name,
  version: manifest.version,
  private: true,
  description: manifest.description,
  license: manifest.license,
  type: 'module',
  engines: manifest.engines,
  bin: { slipway: 'bin/slipway' },
  optionalDependencies: manifest.optionalDependencies,
};

interface Lock {
  lockfileVersion: number;
  packages: Record<string, Record<string, unknown>>;
}

/** Pins the hash of each optional package, so that an installation takes exactly these. */
function shrinkwrap(): Lock & { name: string; version: string } {
  const { name, version, license, bin, engines, optionalDependencies } = packageManifest;
  const { lockfileVersion, packages } = readJson<Lock>(join(root, 'package-lock.json'));
  const pinned = Object.keys(optionalDependencies).map((each) => {
    const path = `node_modules/${each}`;
    return [path, packages[path] ?? {}] as const;
  });
  const own = { name, version, license, bin, engines, optionalDependencies };
  return { name, version, lockfileVersion, packages: { '': own, ...Object.fromEntries(pinned) } };
}

const writeJson = (path: string, value: unknown) => writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);

const copies: Record<string, string> = {
  LICENSE: 'LICENSE',
  'CHANGELOG.md': 'CHANGELOG.md',
  'slipway.yaml': 'slipway.yaml',
  'packaging/installed/README.md': 'README.md',
  'packaging/installed/slipway': 'bin/slipway',
  'packaging/installed/link-libraries.mjs': 'bin/link-libraries.mjs',
  'packaging/monitoring/prometheus-rules.yaml': 'monitoring/prometheus-rules.yaml',
  'packaging/monitoring/dashboards': 'monitoring/dashboards',
};

/** Returns the packages that the tree contains or installs. */
export async function buildTree(tree: string): Promise<ShippedPackage[]> {
  mkdirSync(join(tree, 'bin'), { recursive: true });
  const packages = packagesOf([...(await buildPrograms(tree)), ...(await buildConsole(tree))]);
  for (const [from, to] of Object.entries(copies)) cpSync(join(root, from), join(tree, to), { recursive: true });
  writeFileSync(join(tree, noticesFile), noticesOf(packages));
  const licences = await licencesOf(packages);
  refuseLicences('packages', licences);
  writeJson(join(tree, licencesFile), countLicences(licences));
  writeJson(join(tree, 'package.json'), packageManifest);
  writeJson(join(tree, 'npm-shrinkwrap.json'), shrinkwrap());
  return packages;
}
