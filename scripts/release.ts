/**
 * `npm run release`: builds every artefact of a release into `dist/release`, or into the folder
 * given as `--into`. Two builds of one commit are identical, byte for byte.
 */
import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { sourceDate, writeTarball } from '../packaging/build/archive.ts';
import { dpkgObstacle, writeDebianPackage } from '../packaging/build/debian.ts';
import { imageObstacle, writeImage } from '../packaging/build/image.ts';
import { emptyOutput, stagingName } from '../packaging/build/output.ts';
import { manifest, root } from '../packaging/build/paths.ts';
import { sbomOf } from '../packaging/build/sbom.ts';
import { addPrograms } from '../packaging/build/self-contained.ts';
import { signChecksums, signingKey } from '../packaging/build/signature.ts';
import { buildTree } from '../packaging/build/tree.ts';

const artefacts = ['npm', 'archive', 'debian', 'image'];

const { values } = parseArgs({
  options: {
    into: { type: 'string', default: join(root, 'dist/release') },
    /** Builds only these artefacts. The npm package alone takes seconds. */
    only: { type: 'string', multiple: true },
    help: { type: 'boolean', short: 'h' },
  },
});
if (values.help) {
  process.stdout.write(`Usage: npm run release -- [--into FOLDER] [--only NAME]...

  --into FOLDER  write the artefacts there (${values.into})
  --only NAME    build only this artefact: ${artefacts.join(', ')}
`);
  process.exit(0);
}
const requestedNames = values.only ?? artefacts;
/** Whether an artefact that cannot be built is an error. Otherwise it is skipped. */
const mustBuildAll = values.only !== undefined || process.env.CI === 'true';
const unknownName = requestedNames.find((name) => !artefacts.includes(name));
if (unknownName !== undefined) throw new Error(`--only ${unknownName} is not one of ${artefacts.join(', ')}`);
const obstacles: Record<string, () => string | null> = { debian: dpkgObstacle, image: imageObstacle };
// Checked before the build, which takes minutes.
const possible = requestedNames.filter((name) => {
  const obstacle = obstacles[name]?.() ?? null;
  if (obstacle !== null && mustBuildAll) throw new Error(`cannot build the artefact ${name}: ${obstacle}`);
  if (obstacle !== null) console.log(`skipped the artefact ${name}: ${obstacle}`);
  return obstacle === null;
});
const builds = (name: string) => possible.includes(name);

const folder = resolve(values.into);
const staging = join(folder, stagingName);
const base = `${manifest.name}-${manifest.version}`;
const date = sourceDate();
// Fails on a bad key before the build, which takes minutes.
const key = signingKey();

/** The build of the console depends on this variable. */
process.env.NODE_ENV = 'production';

async function sha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

async function buildArtefacts(): Promise<void> {
  // npm expects the files of a package below this name.
  const tree = join(staging, 'package');
  const packages = await buildTree(tree);
  if (builds('npm')) await writeTarball(tree, join(folder, `${base}.tgz`), date);
  writeFileSync(join(folder, `${base}.cdx.json`), sbomOf(packages, date));
  if (possible.every((name) => name === 'npm')) return;
  const archiveFolder = join(staging, `${base}-linux-${process.arch}`);
  renameSync(tree, archiveFolder);
  addPrograms(archiveFolder);
  if (builds('archive')) await writeTarball(archiveFolder, join(folder, `${base}-linux-${process.arch}.tar.gz`), date);
  if (builds('debian')) writeDebianPackage(archiveFolder, join(staging, 'debian'), folder, date);
  if (builds('image')) await writeImage(archiveFolder, join(staging, 'image'), folder, date);
}

emptyOutput(folder);
mkdirSync(staging, { recursive: true });
try {
  await buildArtefacts();
} finally {
  rmSync(staging, { recursive: true, force: true });
}

const names = readdirSync(folder).sort();
const sums = await Promise.all(names.map(async (name) => `${await sha256(join(folder, name))}  ${name}\n`));
writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''));
for (const name of names) console.log(`${(statSync(join(folder, name)).size / 1e6).toFixed(1)} MB  ${name}`);
if (key === null) console.log('not signed: SLIPWAY_RELEASE_KEY names no key file');
else signChecksums(folder, key);
