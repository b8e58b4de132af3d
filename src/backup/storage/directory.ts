/** Backups as files in a directory. */
import { randomBytes } from 'node:crypto';
import { createReadStream, rmSync } from 'node:fs';
import { link, open, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type BackupStorage, existsError, isBackupName } from './storage.ts';

const privateMode = 0o600;

export async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return path.endsWith('/');
    throw error;
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function writeWhole(directory: string, name: string, chunks: AsyncIterable<Buffer>): Promise<number> {
  const path = join(directory, name);
  const draft = join(directory, `.${name}.${randomBytes(6).toString('hex')}`);
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
      throw error.code === 'EEXIST' ? existsError(path) : error;
    });
    await syncDirectory(dirname(path));
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

async function removeAbandonedDrafts(
  directory: string,
  isOurs: (name: string) => boolean,
  nowMs: number,
): Promise<string[]> {
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

export function openDirectory(directory: string): BackupStorage {
  const pathOf = (name: string) => join(directory, name);
  return {
    pathOf,
    list: async () => (await readdir(directory)).filter(isBackupName).sort(),
    read: (name) => createReadStream(pathOf(name), { highWaterMark: 256 * 1024 }),
    write: (name, chunks) => writeWhole(directory, name, chunks),
    remove: (name) => rm(pathOf(name), { force: true }),
    removeAbandoned: (isOurs, nowMs) => removeAbandonedDrafts(directory, isOurs, nowMs),
  };
}
