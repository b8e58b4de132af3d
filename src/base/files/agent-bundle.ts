/**
 * Reads and keeps the agent's single-file bundle. An EC2 machine downloads the bundle whose
 * SHA-256 is in its user data. Each EC2 launch therefore keeps a copy named by this digest, so that
 * the download still works after the server was upgraded.
 */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Only the newest copies are kept. A booting machine fetches its bundle within minutes, and no
 * installation is upgraded this often in that time.
 */
const maxKept = 5;

export const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

const ignoreMissing = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== 'ENOENT') throw error;
  return undefined;
};

export const keptBundlesDir = (data_dir: string): string => join(data_dir, 'agent-bundles');

export interface AgentBundleFiles {
  /** The built file. */
  path: string;
  /** The directory of copies. */
  kept_dir: string;
}

/**
 * Without a digest, returns the built file. With one, returns the built file or the kept copy that
 * has this digest. Returns undefined if there is none. Reads the disk on every call, so that a
 * rebuild takes effect without a restart.
 */
export async function readBundle({ path, kept_dir }: AgentBundleFiles, digest?: string): Promise<Buffer | undefined> {
  const current = await readFile(path).catch(ignoreMissing);
  if (digest === undefined || (current && sha256(current) === digest)) return current;
  const copy = await readFile(join(kept_dir, `${digest}.mjs`)).catch(ignoreMissing);
  return copy && sha256(copy) === digest ? copy : undefined;
}

async function removeOldest(kept_dir: string): Promise<void> {
  const names = (await readdir(kept_dir)).filter((name) => name.endsWith('.mjs'));
  const copies = await Promise.all(
    names.map(async (name) => ({ name, ms: (await stat(join(kept_dir, name)).catch(ignoreMissing))?.mtimeMs ?? 0 })),
  );
  copies.sort((a, b) => b.ms - a.ms);
  for (const { name } of copies.slice(maxKept)) await rm(join(kept_dir, name), { force: true });
}

/** Stores a copy of the current file and returns its digest, or undefined if there is no file. */
export async function keepBundle({ path, kept_dir }: AgentBundleFiles): Promise<string | undefined> {
  const bytes = await readFile(path).catch(ignoreMissing);
  if (!bytes) return undefined;
  const digest = sha256(bytes);
  const copy = join(kept_dir, `${digest}.mjs`);
  if (await stat(copy).catch(ignoreMissing)) return digest;
  await mkdir(kept_dir, { recursive: true });
  const temporaryPath = `${copy}.${process.pid}`;
  await writeFile(temporaryPath, bytes);
  await rename(temporaryPath, copy);
  await removeOldest(kept_dir);
  return digest;
}
