/**
 * A real container engine for tests. It keeps everything in a temporary directory and can be
 * stopped and restarted. It needs no registry, because its image is built from files of this host.
 */
import { type ChildProcess, spawnSync } from 'node:child_process';
import { createWriteStream, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { registerStop } from '../run/left-running.ts';
import { until } from '../until.ts';
import { imageLayer } from './image-layer.ts';

/** Runs until SIGTERM, like an agent. */
const fakeAgent = ['/bin/sh', '-c', 'trap "exit 0" TERM; echo started; sleep 100000 & wait'];

export interface WireContainer {
  Id: string;
  State: string;
  Labels: Record<string, string>;
}

export interface TestEngine {
  docker_host: string;
  /** An image with an entrypoint that runs until SIGTERM, like an agent. */
  image: string;
  /** Calls the engine directly, without the driver. */
  call<T>(method: string, path: string, body?: object): Promise<{ status: number; body: T }>;
  containers(labels?: Record<string, string>): Promise<WireContainer[]>;
  /** Does nothing if the engine already runs. */
  start(): Promise<void>;
  /** Kills the engine, not its containers. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

/** Starts an engine. `registry` is the address of a registry that serves plain HTTP. */
export type StartEngine = (options?: { registry?: string }) => Promise<TestEngine>;

/** The parts of the fixture that differ between engines. */
export interface EngineProgram {
  name: string;
  /** Starts the process that listens on the socket. */
  launch(directory: string, socket: string): ChildProcess;
  /** Cleans up after a killed engine, and waits for processes that end with the engine. */
  afterKill?(directory: string): Promise<void>;
}

function send(
  socketPath: string,
  method: string,
  path: string,
  body?: Buffer | string,
): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const headers = { 'content-type': Buffer.isBuffer(body) ? 'application/x-tar' : 'application/json' };
  const outgoing = request({ socketPath, method, path: `/v1.41${path}`, headers, agent: false }, (reply) => {
    let text = '';
    reply.setEncoding('utf8');
    reply.on('data', (chunk) => {
      text += chunk;
    });
    reply.on('end', () => resolve({ status: reply.statusCode ?? 0, text }));
  });
  outgoing.on('error', reject);
  outgoing.end(body);
  return promise;
}

const mountsBelow = (directory: string): string[] =>
  readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path.startsWith(`${directory}/`))
    .toReversed();

const lastLines = (text: string) => text.split('\n').slice(-8).join('\n');

export async function startEngine({ name, launch, afterKill }: EngineProgram): Promise<TestEngine> {
  const directory = mkdtempSync(join(tmpdir(), `slipway-${name}-`));
  const socket = join(directory, 'engine.sock');
  const log = join(directory, 'engine.log');
  const image = 'localhost/slipway-test:latest';

  let service: ChildProcess | null = null;
  const call: TestEngine['call'] = async (method, path, body) => {
    const { status, text } = await send(socket, method, path, body && JSON.stringify(body));
    return { status, body: /^[[{]/.test(text) ? JSON.parse(text) : null };
  };
  const containers: TestEngine['containers'] = async (labels = {}) => {
    const label = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
    const query = new URLSearchParams({ all: 'true', filters: JSON.stringify({ label }) });
    return (await call<WireContainer[]>('GET', `/containers/json?${query}`)).body;
  };
  const start = async () => {
    if (service) return;
    const startedService = launch(directory, socket);
    service = startedService;
    startedService.stderr?.pipe(createWriteStream(log, { flags: 'a' }));
    await until(`${name} to answer`, async () => {
      if (startedService.exitCode !== null)
        throw new Error(
          `${name} exited with ${startedService.exitCode} instead of serving:\n${lastLines(readFileSync(log, 'utf8'))}`,
        );
      if (!existsSync(socket)) return undefined;
      return (await call('GET', '/_ping').catch(() => undefined))?.status === 200 ? true : undefined;
    });
  };
  const stop = async () => {
    const ending = service;
    if (!ending) return;
    service = null;
    if (ending.exitCode === null) {
      const ended = new Promise((resolve) => ending.once('exit', resolve));
      ending.kill('SIGKILL');
      await ended;
    }
    await afterKill?.(directory);
    rmSync(socket, { force: true });
  };
  const importImage = async () => {
    const [repo = '', tag = ''] = image.split(':');
    const changes = `ENTRYPOINT ${JSON.stringify(fakeAgent)}`;
    const query = new URLSearchParams({ fromSrc: '-', repo, tag, changes });
    const { status, text } = await send(socket, 'POST', `/images/create?${query}`, imageLayer());
    if (status !== 200 || text.includes('"error"')) throw new Error(`${name} did not import the image: ${text}`);
  };
  /** Retries, because clean-up processes of the engine may still mount and unmount for a moment. */
  const removeDirectory = () =>
    until(`the directory of ${name} to be removed`, () => {
      for (const path of mountsBelow(directory)) spawnSync('umount', [path]);
      try {
        rmSync(directory, { recursive: true, force: true });
      } catch (error) {
        if (!/busy|not empty/i.test(String(error))) throw error;
      }
      return !existsSync(directory);
    });

  const close = registerStop(async () => {
    await start();
    for (const { Id } of await containers()) await call('DELETE', `/containers/${Id}?force=true`);
    await stop();
    await removeDirectory();
  });
  try {
    await start();
    await importImage();
  } catch (error) {
    await stop();
    await removeDirectory();
    throw error;
  }
  return { docker_host: `unix://${socket}`, image, call, containers, start, stop, close };
}
