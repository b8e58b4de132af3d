/**
 * Gives a cluster to another account while its former owner may still run programs. Everything is opened without following
 * links and changed by its open descriptor, so that a file swapped for a link in between changes nothing outside.
 */
import { closeSync, constants, fchownSync, fstatSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Account } from './account.ts';
import { EmbeddedPostgresError, isRefusal } from './embedded-error.ts';

/** Does not wait for the writer of a pipe. */
const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Linux reaches the entries of an open directory by its descriptor, wherever its path leads by now. */
const below = (descriptor: number, path: string) =>
  process.platform === 'linux' ? `/proc/self/fd/${descriptor}` : path;

/** Undefined for links and sockets, which the database does not own anything by. */
function openWithoutLinks(path: string): number | undefined {
  try {
    return openSync(path, flags);
  } catch (error) {
    if (isRefusal(error, 'ELOOP', 'EMLINK', 'ENXIO', 'ENOENT')) return undefined;
    throw error;
  }
}

/** `path` is where it is opened, `shown` what a person calls it. */
function takeEntry(path: string, shown: string, from: Account, to: Account): void {
  const descriptor = openWithoutLinks(path);
  if (descriptor === undefined) return;
  try {
    const entry = fstatSync(descriptor);
    if (!entry.isDirectory() && !entry.isFile()) return;
    // Its own already where an earlier start was cut off.
    if (entry.uid !== from.uid && entry.uid !== to.uid)
      throw new EmbeddedPostgresError(
        'data_directory_foreign',
        `${shown} belongs to uid ${entry.uid}, but the rest of the database belongs to ${from.name}.`,
        `Find out who put it there. If it belongs to the database, run chown ${from.name} on it; otherwise move it elsewhere. Then start again.`,
      );
    if (entry.isDirectory())
      for (const name of readdirSync(below(descriptor, path)))
        takeEntry(join(below(descriptor, path), name), join(shown, name), from, to);
    // The directory last: a start that is cut off here begins again.
    fchownSync(descriptor, to.uid, to.gid);
  } finally {
    closeSync(descriptor);
  }
}

export const takeOver = (directory: string, from: Account, to: Account): void =>
  takeEntry(directory, directory, from, to);
