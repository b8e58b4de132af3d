/**
 * The agent's one file. A machine is told the SHA-256 of the file that it is to fetch, so the file must still be there after
 * an upgrade: launching keeps a copy under its digest.
 */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Machines that boot fetch the agent within minutes; nobody runs this many versions within that time. */
const maxKept = 5;

export const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

const orMissing = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== 'ENOENT') throw error;
  return undefined;
};

export const keptBundlesDir = (data_dir: string): string => join(data_dir, 'agent-bundles');

export interface AgentBundleFiles {
  /** As it was built. */
  path: string;
  /** Where copies are kept. */
  kept_dir: string;
}

/** Read anew each time, so that one built anew under a running server is handed out whole. Undefined where there is none. */
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

/** Keeps a copy of the present file, and returns its digest. Undefined where there is none. */
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
