/**
 * Real servers for tests, each with its own database. `spawnServer` starts a process that can be
 * killed. `inProcessServer` runs in the test's process, one at a time, because the engine keeps its
 * state per process.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readSettings } from '../../src/base/settings/settings.ts';
import { createLog, type Log } from '../../src/base/telemetry/log.ts';
import { type Client, createClient } from '../../src/contract/client.ts';
import { routes } from '../../src/contract/routes.ts';
import type { Composition } from '../../src/server/opening.ts';
import { startServer } from '../../src/server/start-server.ts';
import { testDatabase } from './database.ts';
import { registerStop } from './run/left-running.ts';
import { killProcessesIn } from './tagged-processes.ts';
import { until } from './until.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
/**
 * A whole test run bundles the server once, because bundled it starts faster
 * (scripts/test/server-in-one-file.ts).
 */
const serverProgram = process.env.SLIPWAY_TEST_SERVER ?? main;

export interface TestServer {
  url: string;
  token: string;
  client: Client;
  data_dir: string;
  nodes_dir: string;
  database_url: string;
  /** Creates a client with another token. */
  as(token: string): Client;
  stop(): Promise<void>;
}

export interface SpawnedServer extends TestServer {
  pid: number;
  output(): string;
  /** Resolves to the exit code, or to null when a signal ended the process. */
  ended: Promise<number | null>;
  /** Sends SIGKILL and resolves when the process is gone. */
  kill(): Promise<void>;
}

/** A busy machine may overload the server for a moment; `until` retries the refused calls. */
const retryingOverload = (client: Client): Client => ({
  ...client,
  call: async (name, input) => {
    const answer = async () => ({ reply: await client.call(name, input) });
    return (await until(`an answer to ${name}`, answer, { seconds: 150 })).reply;
  },
});

const clientFor = (url: string) => (token: string) =>
  retryingOverload(createClient({ base_url: url, token, addresses: routes }));

async function directories(): Promise<{ data_dir: string; nodes_dir: string }> {
  const data_dir = await mkdtemp(join(tmpdir(), 'slipway-test-'));
  return { data_dir, nodes_dir: join(data_dir, 'nodes') };
}

/**
 * Fails the test if its server answered a problem that the route does not document
 * (`src/api/http/replies/undocumented.ts`).
 */
function watchContract(): { log: Log; check(): void } {
  const undocumentedCodes = new Set<string>();
  const level = process.env.SLIPWAY_TEST_LOG;
  const write = (line: string) => {
    const { undocumented_code, operation } = JSON.parse(line) as { undocumented_code?: string; operation?: string };
    if (undocumented_code) undocumentedCodes.add(`${operation} answered ${undocumented_code}`);
    if (level) process.stdout.write(line);
  };
  return {
    log: createLog({ level: level ?? 'error', destination: { write } }),
    check() {
      if (undocumentedCodes.size > 0)
        throw new Error(`Add to \`problems\` of the route, or fix the route: ${[...undocumentedCodes].join(', ')}`);
    },
  };
}

/**
 * With `database_url` the server uses a database that the caller creates and drops. `composition`
 * leaves out or breaks a part of the server.
 */
export async function inProcessServer(
  options: { args?: string[]; composition?: Composition; database_url?: string; log?: Log } = {},
): Promise<TestServer> {
  const database = options.database_url
    ? { url: options.database_url, application_url: null, drop: async () => {} }
    : await testDatabase();
  // As in production, the server's role owns nothing, so a missing grant fails here first.
  const roles = database.application_url
    ? ['--database-url', database.application_url, '--owner-database-url', database.url]
    : ['--database-url', database.url];
  const { data_dir, nodes_dir } = await directories();
  const args = ['--port', '0', '--data-dir', data_dir, '--nodes-dir', nodes_dir, ...roles, ...(options.args ?? [])];
  const contract = watchContract();
  const server = await startServer(readSettings(args, {}), options.log ?? contract.log, options.composition);
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
    stop: registerStop(async () => {
      await server.stop();
      killProcessesIn(data_dir);
      await database.drop();
      await rm(data_dir, { recursive: true, force: true });
      contract.check();
    }),
  };
}

export interface SpawnedProgram {
  child: ChildProcess;
  /** Standard output and standard error. */
  output(): string;
  stdout(): string;
  ended: Promise<number | null>;
  /** Resolves when the process is gone. */
  end(signal: NodeJS.Signals): Promise<void>;
}

export interface SpawnedMain extends SpawnedProgram {
  url: string;
}

interface SpawnOptions {
  env?: Record<string, string>;
  program?: string;
  node_args?: string[];
  open_files?: number;
  account?: { uid: number; gid: number };
}

/** Starts a program of the product, by default the server, and does not wait until it listens. */
export function spawnProgram(
  args: string[],
  { env = {}, program = main, node_args = [], open_files, account }: SpawnOptions = {},
): SpawnedProgram {
  const command = [process.execPath, ...node_args, program, ...args];
  const limitedCommand = ['sh', '-c', 'ulimit -n "$0" && exec "$@"', String(open_files), ...command];
  const [first = '', ...rest] = open_files === undefined ? command : limitedCommand;
  const child = spawn(first, rest, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
    ...account,
  });
  spawnedChildren.add(child);
  let text = '';
  let stdout = '';
  child.stdout.on('data', (chunk) => {
    text += chunk;
    stdout += chunk;
  });
  child.stderr.on('data', (chunk) => {
    text += chunk;
  });
  const ended = new Promise<number | null>((resolve) => {
    child.once('exit', (code) => {
      spawnedChildren.delete(child);
      resolve(code);
    });
  });
  return {
    child,
    output: () => text,
    stdout: () => stdout,
    ended,
    async end(signal) {
      child.kill(signal);
      await ended;
    },
  };
}

/** Starts the server's process as an operator would; resolves when the server listens. */
export async function spawnMain(args: string[], options: SpawnOptions = {}): Promise<SpawnedMain> {
  const program = spawnProgram(args, options);
  const { child, output } = program;
  const url = await until(
    'the server to print its address',
    () => {
      if (child.exitCode !== null) throw new Error(`the server exited with ${child.exitCode}:\n${output()}`);
      return /Console\s+(http\S+)/.exec(output())?.[1];
    },
    { seconds: 180 },
  );
  return { ...program, url };
}

/**
 * A test that fails half-way must not leave its servers running, so they are killed when the test's
 * process exits.
 */
const spawnedChildren = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of spawnedChildren) child.kill('SIGKILL');
});

/**
 * Starts a server process. With `beside` the new server is another replica on the same database and
 * nodes. Agents keep the address they were started with, so give a replacement its predecessor's
 * `port`. With `node_args` the server runs from source, so that loader hooks see its modules.
 */
export async function spawnServer(
  options: {
    beside?: TestServer;
    port?: number;
    args?: string[];
    env?: Record<string, string>;
    node_args?: string[];
    /** The entry point of another version of the server. */
    program?: string;
    /** The hard limit of open files. */
    open_files?: number;
    /** A database that the caller creates and drops. */
    database_url?: string;
  } = {},
): Promise<SpawnedServer> {
  const external_url = options.beside?.database_url ?? options.database_url;
  const database = external_url ? undefined : await testDatabase();
  const database_url = external_url ?? database?.url ?? '';
  const ownDirectories = await directories();
  const nodes_dir = options.beside?.nodes_dir ?? ownDirectories.nodes_dir;
  const args = [
    '--port',
    String(options.port ?? 0),
    '--data-dir',
    ownDirectories.data_dir,
    '--nodes-dir',
    nodes_dir,
    '--database-url',
    database_url,
    '--log-level',
    'info',
    '--drain-seconds',
    '0',
    ...(options.args ?? []),
  ];
  const { env, node_args, open_files } = options;
  const program = options.program ?? (node_args ? main : serverProgram);
  const { child, url, output, ended, end } = await spawnMain(args, { env, program, node_args, open_files });
  const token = (await readFile(join(ownDirectories.data_dir, 'admin.token'), 'utf8')).trim();
  const as = clientFor(url);
  return {
    url,
    token,
    client: as(token),
    data_dir: ownDirectories.data_dir,
    nodes_dir,
    database_url,
    as,
    pid: child.pid ?? 0,
    output,
    ended,
    kill: () => end('SIGKILL'),
    async stop() {
      await end('SIGTERM');
      killProcessesIn(ownDirectories.data_dir);
      await database?.drop();
      await rm(ownDirectories.data_dir, { recursive: true, force: true });
    },
  };
}
