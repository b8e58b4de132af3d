/** Backups in a directory: their names, and a file that appears only when it is whole. */
import { randomBytes } from 'node:crypto';
import { createReadStream, rmSync } from 'node:fs';
import { link, open, readdir, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { BackupRefused } from '../store/backup/refusal.ts';

const suffix = '.slipway-backup';
const privateMode = 0o600;

/** The names of one installation's backups sort by time. */
export const backupName = ({
  installation_id,
  taken_at,
}: {
  installation_id: string | null;
  taken_at: string;
}): string => `${installation_id ?? 'slipway'}-${taken_at.replaceAll(/[:.]/g, '-')}${suffix}`;

const isBackupName = (name: string, installation_id: string | null): boolean =>
  name.startsWith(`${installation_id ?? 'slipway'}-2`) && name.endsWith(suffix);

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return path.endsWith('/');
    throw error;
  }
}

/** Returns the file to write: `to` itself, or a new one in the directory `to`. */
export const chooseFile = async (to: string, name: string): Promise<string> =>
  (await isDirectory(to)) ? join(to, name) : to;

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Returns how many bytes were written. Never replaces a file. */
export async function writeWhole(path: string, chunks: AsyncIterable<Buffer>): Promise<number> {
  const directory = dirname(path);
  const draft = join(directory, `.${basename(path)}.${randomBytes(6).toString('hex')}`);
  const file = await open(draft, 'wx', privateMode);
  // Ctrl-C must not leave a draft behind.
  const removeDraft = () => rmSync(draft, { force: true });
  process.once('exit', removeDraft);
  try {
    let bytes = 0;
    try {
      for await (const chunk of chunks) {
        // Not `write`, which may write only a part of the chunk.
        await file.writeFile(chunk);
        bytes += chunk.length;
      }
      await file.sync();
    } finally {
      await file.close();
    }
    // Unlike a rename, a link does not replace a file.
    await link(draft, path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
      throw new BackupRefused('file_exists', `${path} exists already`, {
        why: 'A backup never replaces a file.',
        remedy: 'Name another file or a directory with --to.',
      });
    });
    await syncDirectory(directory);
    return bytes;
  } finally {
    process.off('exit', removeDraft);
    removeDraft();
  }
}

/** Ctrl-C removes a draft, but SIGKILL and a power cut do not. */
const draftName = /^\.(.+)\.[0-9a-f]{12}$/;
/** A running backup writes to its draft all the time. */
const abandonedMs = 86_400_000;

/**
 * Deletes drafts beside `path` that nothing has written to for a day: those of the same file, and
 * those of other backups of the installation. A draft that cannot be deleted stops no backup.
 */
export async function removeAbandonedDrafts(
  path: string,
  { installation_id, nowMs }: { installation_id: string | null; nowMs: number },
): Promise<string[]> {
  const directory = dirname(path);
  const isOurs = (name: string) => name === basename(path) || isBackupName(name, installation_id);
  const entries = await readdir(directory).catch(() => []);
  const names = entries.filter((name) => isOurs(draftName.exec(name)?.[1] ?? ''));
  const deleted: string[] = [];
  for (const draft of names.map((name) => join(directory, name))) {
    try {
      const { mtimeMs } = await stat(draft);
      if (nowMs - mtimeMs < abandonedMs) continue;
      await rm(draft);
      deleted.push(draft);
    } catch {
      // Another backup deleted it meanwhile, or it belongs to another account.
    }
  }
  return deleted;
}

export const readChunks = (path: string): AsyncIterable<Buffer> =>
  createReadStream(path, { highWaterMark: 256 * 1024 });

/** Oldest first. */
export async function listBackups(directory: string, installation_id: string | null): Promise<string[]> {
  const names = (await readdir(directory)).filter((name) => isBackupName(name, installation_id));
  return names.sort().map((name) => join(directory, name));
}

/**
 * Deletes all but `keep` backups of the installation: the one just taken, and the newest others.
 * Returns the deleted ones.
 */
export async function pruneBackups(
  taken: string,
  { installation_id, keep }: { installation_id: string | null; keep: number },
): Promise<string[]> {
  // If the clock went back, the one just taken is not the last one.
  const others = (await listBackups(dirname(taken), installation_id)).filter((path) => path !== taken);
  const old = others.slice(0, Math.max(0, others.length - keep + 1));
  for (const path of old) await rm(path, { force: true });
  return old;
}
