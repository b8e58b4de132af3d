/**
 * Starts `embedded-server.ts` processes that a test can kill. `endServers` stops the PostgreSQL
 * servers that they leave running and removes their directories.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod, chown, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { isProcessAlive } from '../../../src/store/pg/embedded/postmaster.ts';
import { until } from '../until.ts';

export const serverProgram = fileURLToPath(new URL('./embedded-server.ts', import.meta.url));
export const isRoot = process.getuid?.() === 0;
export const nobodyUid = 65534;

export interface EmbeddedServer {
  child: ChildProcess;
  url: string;
  application_url: string;
  pid: number;
  adopted: boolean;
  clusterDir: string;
  log: string[];
  refusalCode?: string;
  message?: string;
  remedy?: string;
}

const children = new Set<ChildProcess>();
const directories = new Set<string>();
const postmasters = new Set<number>();

export async function startServer(dataDir: string, launch: Launch = {}): Promise<EmbeddedServer> {
  const { program = serverProgram, relocateTo, umask = process.umask(), ...identity } = launch;
  const args = [program, dataDir, ...(relocateTo === undefined ? [] : [relocateTo])];
  const ownUmask = process.umask(umask);
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], cwd: '/', ...identity });
  process.umask(ownUmask);
  children.add(child);
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>,
    once(child, 'close').then(([code]): never => {
      throw new Error(`the server exited with ${code} without a report; its error is printed above`);
    }),
  ]);
  const server = { child, ...(JSON.parse(line) as Omit<EmbeddedServer, 'child'>) };
  if (server.clusterDir) directories.add(server.clusterDir);
  if (server.pid) postmasters.add(server.pid);
  return server;
}

interface Launch {
  uid?: number;
  gid?: number;
  program?: string;
  umask?: number;
  /** Replaces the server's own fallback directory, so that a test leaves nothing on the host. */
  relocateTo?: string;
}

export async function endProcess(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}

export async function newDirectory(mode = 0o711): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-embedded-'));
  directories.add(directory);
  await chmod(directory, mode);
  return directory;
}

export async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/**
 * Stops the processes and removes their directories. Each test file calls it itself, because this
 * module is loaded once for many files.
 */
export async function endServers(): Promise<void> {
  for (const child of children) await endProcess(child, 'SIGTERM');
  for (const pid of postmasters) {
    if (isProcessAlive(pid) && readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'postgres')
      process.kill(pid, 'SIGINT');
    await until(`postmaster ${pid} to exit`, () => !isProcessAlive(pid));
  }
  for (const directory of directories) await rm(directory, { recursive: true, force: true });
  for (const set of [children, directories, postmasters]) set.clear();
}

/** When the tests run as root: gives the directory to `nobody`, and returns options to run so. */
export async function asPlainUser(dataDir: string): Promise<Launch> {
  if (!isRoot) return {};
  await chown(dataDir, nobodyUid, nobodyUid);
  for (const name of await readdir(dataDir)) await chown(join(dataDir, name), nobodyUid, nobodyUid);
  return { uid: nobodyUid, gid: nobodyUid };
}
