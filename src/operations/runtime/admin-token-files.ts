/**
 * Reads and replaces the files of the admin token for a program beside the server, often root. The
 * server's account may write in their directory, so nothing here follows a planted link.
 */
import { constants, type FileHandle, open, rename, rm } from 'node:fs/promises';
import { newSecret } from '../../base/credentials/random-secret.ts';

/** Non-blocking, so that opening a pipe does not wait for its writer. */
const safeFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const maxBytes = 4096;
const visibleCharacters = /^[!-~]+$/;

/** Null if there is no readable, small, regular file with a single word. */
export async function readWord(path: string): Promise<string | null> {
  let file: FileHandle;
  try {
    file = await open(path, safeFlags);
  } catch {
    return null;
  }
  try {
    const stats = await file.stat();
    if (!stats.isFile() || stats.size > maxBytes) return null;
    const { buffer, bytesRead } = await file.read(Buffer.alloc(maxBytes), 0, maxBytes, 0);
    const text = buffer.toString('latin1', 0, bytesRead).trim();
    return visibleCharacters.test(text) ? text : null;
  } finally {
    await file.close();
  }
}

/** Replaces the file. If root runs this, `owner` gets the file, because the server must read it. */
export async function replaceFile(path: string, text: string, owner: { uid: number; gid: number }): Promise<void> {
  const draft = `${path}.${newSecret('draft')}`;
  try {
    const file = await open(draft, 'wx', 0o600);
    try {
      await file.writeFile(`${text}\n`);
      if (process.geteuid?.() === 0) await file.chown(owner.uid, owner.gid);
    } finally {
      await file.close();
    }
    await rename(draft, path);
  } catch (error) {
    // The draft may have a valid token.
    await rm(draft, { force: true });
    throw error;
  }
}
