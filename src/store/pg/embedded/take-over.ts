/**
 * Changes the owner of a cluster while the former owner may still run programs. Each entry is
 * opened without following links and changed by its descriptor, so that swapping an entry for a
 * link cannot change anything outside.
 */
import { closeSync, constants, fchownSync, fstatSync, openSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Account } from './account.ts';
import { EmbeddedPostgresError, isRefusal } from './embedded-error.ts';

/** Non-blocking, so that opening a pipe does not wait for its writer. */
const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * On Linux the entries are reached by the directory's descriptor, wherever its path leads by now.
 */
const below = (descriptor: number, path: string) =>
  process.platform === 'linux' ? `/proc/self/fd/${descriptor}` : path;

/** Undefined for links and sockets, which are left alone. */
function openWithoutLinks(path: string): number | undefined {
  try {
    return openSync(path, flags);
  } catch (error) {
    if (isRefusal(error, 'ELOOP', 'EMLINK', 'ENXIO', 'ENOENT')) return undefined;
    throw error;
  }
}

/** `path` is used to open the entry, `shown` appears in errors. */
function takeEntry(path: string, shown: string, from: Account, to: Account): void {
  const descriptor = openWithoutLinks(path);
  if (descriptor === undefined) return;
  try {
    const entry = fstatSync(descriptor);
    if (!entry.isDirectory() && !entry.isFile()) return;
    // The new owner has it already if an earlier start was interrupted.
    if (entry.uid !== from.uid && entry.uid !== to.uid)
      throw new EmbeddedPostgresError(
        'data_directory_foreign',
        `${shown} belongs to uid ${entry.uid}, but the rest of the database belongs to ${from.name}.`,
        `Find out who put it there. If it belongs to the database, run chown ${from.name} on it; otherwise move it elsewhere. Then start again.`,
      );
    if (entry.isDirectory())
      for (const name of readdirSync(below(descriptor, path)))
        takeEntry(join(below(descriptor, path), name), join(shown, name), from, to);
    // The directory last, so that an interrupted start begins again.
    fchownSync(descriptor, to.uid, to.gid);
  } finally {
    closeSync(descriptor);
  }
}

export const takeOver = (directory: string, from: Account, to: Account): void =>
  takeEntry(directory, directory, from, to);
