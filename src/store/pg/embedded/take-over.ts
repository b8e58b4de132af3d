/**
 * Changes the owner of a database cluster's directory while the former owner may still run
 * programs. Opens each entry without following links and changes it by its descriptor, so that the
 * former owner cannot redirect the change to a file outside the directory by planting a link.
 */
import { closeSync, constants, fchownSync, fstatSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Account } from './account.ts';
import { EmbeddedPostgresError, hasErrorCode } from './embedded-error.ts';

/** Non-blocking, so that opening a pipe does not wait for its writer. */
const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * The path under which to open a directory's entries. On Linux it goes through the open descriptor,
 * so that it stays valid when the former owner renames the directory or replaces it by a link.
 */
const pathThroughDescriptor = (descriptor: number, path: string) =>
  process.platform === 'linux' ? `/proc/self/fd/${descriptor}` : path;

/** Undefined for links and sockets, which keep their owner, and for entries that have vanished. */
function openWithoutLinks(path: string): number | undefined {
  try {
    return openSync(path, flags);
  } catch (error) {
    if (hasErrorCode(error, 'ELOOP', 'EMLINK', 'ENXIO', 'ENOENT')) return undefined;
    throw error;
  }
}

/** Opens the entry at `path`. Errors show `displayPath`. */
function takeEntry(path: string, displayPath: string, from: Account, to: Account): void {
  const descriptor = openWithoutLinks(path);
  if (descriptor === undefined) return;
  try {
    const entry = fstatSync(descriptor);
    if (!entry.isDirectory() && !entry.isFile()) return;
    // An earlier start that was interrupted has already given some entries to the new owner.
    if (entry.uid !== from.uid && entry.uid !== to.uid)
      throw new EmbeddedPostgresError(
        'data_directory_foreign',
        `${displayPath} belongs to uid ${entry.uid}, but the rest of the database belongs to ${from.name}.`,
        `Find out who put it there. If it belongs to the database, run chown ${from.name} on it; otherwise move it elsewhere. Then start again.`,
      );
    if (entry.isDirectory())
      for (const name of readdirSync(pathThroughDescriptor(descriptor, path)))
        takeEntry(join(pathThroughDescriptor(descriptor, path), name), join(displayPath, name), from, to);
    // A directory changes its owner after its entries. If the start is interrupted, the next start
    // sees the former owner on the directory and repeats the takeover.
    fchownSync(descriptor, to.uid, to.gid);
  } finally {
    closeSync(descriptor);
  }
}

export const takeOver = (directory: string, from: Account, to: Account): void =>
  takeEntry(directory, directory, from, to);
