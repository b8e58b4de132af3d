/** Runs an installed Slipway as an operator would, far from the clone. */
import { execFile, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import { type Client, createClient } from '../../../src/contract/client.ts';
import { routes } from '../../../src/contract/routes.ts';
import { killProcessesIn } from '../../support/tagged-processes.ts';
import { until } from '../../support/until.ts';

export interface Launcher {
  program: string;
  env: Record<string, string>;
  /** The folder in which the programs run, and which they may write. */
  folder: string;
  account?: { uid: number; gid: number };
}

export interface InstalledServer {
  url: string;
  client: Client;
  started_ms: number;
  output(): string;
  /** Sends SIGTERM and resolves to the exit code. */
  stop(): Promise<number | null>;
}

/** Starts a program of the launcher and resolves when its output matches `ready`. */
export async function startProgram({ program, env, folder, account }: Launcher, args: string[], ready: RegExp) {
  const child = spawn(program, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'], ...account });
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      text += chunk;
    });
  /** How the program ended, or why it could not start. */
  let end: string | undefined;
  const ended = new Promise<number | null>((resolve) => {
    child.once('exit', (code, signal) => {
      end = signal === null ? `exited with ${code}` : `was ended by ${signal}`;
      resolve(code);
    });
    child.once('error', (error) => {
      end = `could not start: ${error.message}`;
      resolve(null);
    });
  });
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  // A test that fails leaves no server behind; SIGTERM also ends the embedded database.
  onTestFinished(async () => {
    if (end === undefined) await stop();
  });
  const address = await until(
    `${args[0]} to print its address`,
    () => {
      if (end !== undefined) throw new Error(`${args[0]} ${end}:\n${text}`);
      return ready.exec(text)?.[1];
    },
    { seconds: 90 },
  );
  return {
    address,
    output: () => text,
    stop,
  };
}

export const dataOf = ({ folder }: Launcher): string => join(folder, 'data');

export async function startInstalled(launcher: Launcher, args: string[] = []): Promise<InstalledServer> {
  const startedMs = systemClock.monotonicMs();
  const data = dataOf(launcher);
  // A server leaves its machines running, so a test that fails must end them. Runs after the server
  // has stopped, because vitest calls these functions in reverse order.
  onTestFinished(() => killProcessesIn(data));
  const serve = ['serve', '--port', '0', '--data-dir', data, '--log-level', 'warn', ...args];
  const { address, output, stop } = await startProgram(launcher, serve, /Console\s+(http\S+)/);
  const token = (await readFile(join(data, 'admin.token'), 'utf8')).trim();
  return {
    url: address,
    client: createClient({ base_url: address, token, addresses: routes }),
    started_ms: Math.round(systemClock.monotonicMs() - startedMs),
    output,
    stop,
  };
}

/** Runs a command of the installed Slipway and returns its standard output. */
export async function runInstalled({ program, env, folder, account }: Launcher, args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(program, args, { cwd: folder, env, timeout: 90_000, ...account });
  return stdout;
}

/** Allocates a machine, gives it back, and returns what its certificate says about the release. */
export async function allocateAndRelease(launcher: Launcher, { url, client }: InstalledServer): Promise<string> {
  const to = ['--server', url, '--data-dir', dataOf(launcher)];
  await runInstalled(launcher, ['allocate', '--pool', 'local', '--name', 'first', '--wait', ...to]);
  const { items } = await client.call('allocation-list', {});
  const id = items[0]?.allocation_id ?? '';
  await runInstalled(launcher, ['release', id, '--wait', ...to]);
  const certificate = JSON.parse(await runInstalled(launcher, ['certificate', id, '--output', '-', ...to]));
  return certificate.release;
}

/** The status and the type of the pages that a browser and a program ask for first. */
export async function readPages(url: string): Promise<Record<string, string>> {
  const paths = ['/', '/docs/', '/docs/static/swagger-ui.css', '/openapi.json', '/readyz', '/v1/agent/bundle'];
  const answers = await Promise.all(
    paths.map(async (path) => {
      const { status, headers } = await fetch(`${url}${path}`);
      return [path, `${status} ${headers.get('content-type')?.split(';')[0]}`] as const;
    }),
  );
  return Object.fromEntries(answers);
}

export const expectedPages: Record<string, string> = {
  '/': '200 text/html',
  '/docs/': '200 text/html',
  '/docs/static/swagger-ui.css': '200 text/css',
  '/openapi.json': '200 application/json',
  '/readyz': '200 application/json',
  '/v1/agent/bundle': '200 text/javascript',
};
