/**
 * Real servers for tests, each with its own database: `spawnServer` is a process of its own that can be killed,
 * `inProcessServer` runs in the test (one at a time: the engine keeps its state per process).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createLog } from '../../src/base/log.ts';
import { readSettings } from '../../src/base/settings.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import { startServer } from '../../src/main.ts';
import { testDatabase } from './database.ts';
import { until } from './until.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export interface TestServer {
  url: string;
  token: string;
  client: Client;
  data_dir: string;
  nodes_dir: string;
  database_url: string;
  /** A client with another token. */
  as(token: string): Client;
  stop(): Promise<void>;
}

export interface SpawnedServer extends TestServer {
  pid: number;
  output(): string;
  /** `kill -9`: no goodbye, no clean-up. Resolves when the process is gone. */
  kill(): Promise<void>;
}

const clientFor = (url: string) => (token: string) => createClient({ base_url: url, token, addresses: routes });

async function directories(): Promise<{ data_dir: string; nodes_dir: string }> {
  const data_dir = await mkdtemp(join(tmpdir(), 'slipway-test-'));
  return { data_dir, nodes_dir: join(data_dir, 'nodes') };
}

export async function inProcessServer(options: { args?: string[] } = {}): Promise<TestServer> {
  const database = await testDatabase();
  const { data_dir, nodes_dir } = await directories();
  const args = [
    '--port',
    '0',
    '--data-dir',
    data_dir,
    '--nodes-dir',
    nodes_dir,
    '--database-url',
    database.url,
    ...(options.args ?? []),
  ];
  const server = await startServer(
    readSettings(args, {}),
    createLog({ level: process.env.SLIPWAY_TEST_LOG ?? 'silent' }),
  );
  const token = (await readFile(server.admin_token_path, 'utf8')).trim();
  const as = clientFor(server.url);
  return {
    url: server.url,
    token,
    client: as(token),
    data_dir,
    nodes_dir,
    database_url: database.url,
    as,
    async stop() {
      await server.stop();
      await database.drop();
      await rm(data_dir, { recursive: true, force: true });
    },
  };
}

/** Give `beside` to start another replica on the same database and the same nodes. */
export async function spawnServer(
  options: { beside?: TestServer; args?: string[]; env?: Record<string, string> } = {},
): Promise<SpawnedServer> {
  const database = options.beside ? undefined : await testDatabase();
  const database_url = options.beside?.database_url ?? database?.url ?? '';
  const own = await directories();
  const nodes_dir = options.beside?.nodes_dir ?? own.nodes_dir;
  const args = [
    '--port',
    '0',
    '--data-dir',
    own.data_dir,
    '--nodes-dir',
    nodes_dir,
    '--database-url',
    database_url,
    '--log-level',
    'info',
    ...(options.args ?? []),
  ];
  const child: ChildProcess = spawn(process.execPath, [main, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
  });
  let text = '';
  child.stdout?.on('data', (chunk) => (text += chunk));
  child.stderr?.on('data', (chunk) => (text += chunk));
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const url = await until('the server to print its address', () => {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}:\n${text}`);
    return /Console\s+(http\S+)/.exec(text)?.[1];
  });
  const token = (await readFile(join(own.data_dir, 'admin.token'), 'utf8')).trim();
  const as = clientFor(url);
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await ended;
  };
  return {
    url,
    token,
    client: as(token),
    data_dir: own.data_dir,
    nodes_dir,
    database_url,
    as,
    pid: child.pid ?? 0,
    output: () => text,
    kill: () => end('SIGKILL'),
    async stop() {
      await end('SIGTERM');
      await database?.drop();
      await rm(own.data_dir, { recursive: true, force: true });
    },
  };
}
