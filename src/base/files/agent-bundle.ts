/**
 * The agent's single-file bundle. A launched machine gets the SHA-256 of the bundle to fetch, so
 * each launch keeps a copy under its digest: the file must still exist after an upgrade.
 */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Booting machines fetch the agent within minutes; no installation upgrades this often in that
 * time.
 */
const maxKept = 5;

export const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

const orMissing = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== 'ENOENT') throw error;
  return undefined;
};

export const keptBundlesDir = (data_dir: string): string => join(data_dir, 'agent-bundles');

export interface AgentBundleFiles {
  /** The file as built. */
  path: string;
  /** The directory of copies. */
  kept_dir: string;
}

/**
 * Reads the file on every call, so that a rebuild under a running server is served whole. Undefined
 * if missing.
 */
export async function readBundle({ path, kept_dir }: AgentBundleFiles, digest?: string): Promise<Buffer | undefined> {
  const current = await readFile(path).catch(orMissing);
  if (digest === undefined || (current && sha256(current) === digest)) return current;
  const kept = await readFile(join(kept_dir, `${digest}.mjs`)).catch(orMissing);
  return kept && sha256(kept) === digest ? kept : undefined;
}

async function forgetOldest(kept_dir: string): Promise<void> {
  const names = (await readdir(kept_dir)).filter((name) => name.endsWith('.mjs'));
  const aged = await Promise.all(
    names.map(async (name) => ({ name, ms: (await stat(join(kept_dir, name)).catch(orMissing))?.mtimeMs ?? 0 })),
  );
  aged.sort((a, b) => b.ms - a.ms);
  for (const { name } of aged.slice(maxKept)) await rm(join(kept_dir, name), { force: true });
}

/** Keeps a copy of the current file and returns its digest. Undefined if there is no file. */
export async function keepBundle({ path, kept_dir }: AgentBundleFiles): Promise<string | undefined> {
  const bytes = await readFile(path).catch(orMissing);
  if (!bytes) return undefined;
  const digest = sha256(bytes);
  const copy = join(kept_dir, `${digest}.mjs`);
  if (await stat(copy).catch(orMissing)) return digest;
  await mkdir(kept_dir, { recursive: true });
  const unfinished = `${copy}.${process.pid}`;
  await writeFile(unfinished, bytes);
  await rename(unfinished, copy);
  await forgetOldest(kept_dir);
  return digest;
}
