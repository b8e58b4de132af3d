/** Builds artefacts into a folder of their own, and lists what they contain. */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

export const root = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');
export const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };

const filesOf = (release: string) => ({
  npm: `slipway-${release}.tgz`,
  whole: `slipway-${release}-linux-${process.arch}.tar.gz`,
  debian: `slipway_${release}_${process.arch === 'x64' ? 'amd64' : process.arch}.deb`,
  components: `slipway-${release}.cdx.json`,
  image: `slipway-${release}-linux-${process.arch}.image.tar.gz`,
});
const imageNameOf = (release: string) => `localhost/slipway:${release}`;

export const files = filesOf(version);
export const imageName = imageNameOf(version);
/** The version that `next-release.ts` builds. */
const nextVersion = version.replace(/^(\d+)\.(\d+)\..*$/, (_, major, minor) => `${major}.${Number(minor) + 1}.0`);
export const next = { version: nextVersion, files: filesOf(nextVersion), imageName: imageNameOf(nextVersion) };
/** The folder inside the self-contained archive. */
export const wholeFolder = files.whole.replace('.tar.gz', '');

/** A folder that every account may enter. Under root, PostgreSQL runs as another user. */
export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-packages-'));
  await chmod(folder, 0o755);
  return folder;
}

export const removeFolder = (folder: string): Promise<void> => rm(folder, { recursive: true, force: true });

/** Runs `npm run release` for some artefacts, with other sources, umask and time zone if given. */
export async function buildRelease(
  artefacts: string[],
  { umask = '022', zone = 'UTC', env = {} as Record<string, string>, sources = root } = {},
): Promise<string> {
  const folder = await newFolder();
  const only = artefacts.flatMap((each) => ['--only', each]);
  const script = `umask ${umask} && exec "$0" "$@"`;
  const command = [process.execPath, join(sources, 'scripts/release.ts'), '--into', join(folder, 'out'), ...only];
  await run('sh', ['-c', script, ...command], {
    cwd: folder,
    // The host of a release may be prepared for production, where npm leaves packages out.
    env: { ...process.env, TZ: zone, NODE_ENV: 'production', ...env },
    maxBuffer: 16 << 20,
  }).catch(async (error) => {
    await removeFolder(folder);
    throw error;
  });
  return join(folder, 'out');
}

export async function listTarball(file: string): Promise<string[]> {
  const { stdout } = await run('tar', ['--list', '--gzip', '--file', file], { maxBuffer: 16 << 20 });
  return stdout.split('\n').filter((path) => path !== '' && !path.endsWith('/'));
}

export async function unpack(file: string, folder: string): Promise<void> {
  await run('tar', ['--extract', '--gzip', `--directory=${folder}`, '--file', file]);
}

/** Paths that no artefact may contain: sources, tests, and the files of a development clone. */
export const isUnwanted = (path: string): boolean =>
  /\.tsx?$|\.test\.|\.map$|(^|\/)(src|bench|reports)\/|tsconfig|vitest|biome/.test(
    path.replace(/node_modules\/.*/, ''),
  );
