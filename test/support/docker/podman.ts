/**
 * A real container engine for tests: Podman behind its Docker-compatible socket, with all it keeps in a temporary directory. It
 * can be stopped and started again; its containers go on without it. No registry is needed: images are made of what is here.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../until.ts';
import { imageLayer } from './image-layer.ts';

/** What Podman needs to run inside a machine that is a container itself. */
const settings = `[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
[containers]
default_ulimits=["nofile=1024:1024","nproc=1024:1024"]
`;

/** Stays until it is asked to end, as an agent does. */
const standIn = ['/bin/sh', '-c', 'trap "exit 0" TERM; echo stand-in; sleep 100000 & wait'];

export interface WireContainer {
  Id: string;
  State: string;
  Labels: Record<string, string>;
}

export interface Podman {
  docker_host: string;
  /** Its entrypoint stands in for an agent. */
  image: string;
  /** Asks the engine without the driver. */
  call<T>(method: string, path: string, body?: object): Promise<{ status: number; body: T }>;
  containers(labels?: Record<string, string>): Promise<WireContainer[]>;
  /** Nothing where it runs already. */
  start(): Promise<void>;
  /** Ends the engine, not its containers. */
  stop(): Promise<void>;
  /** What the engine, and all that it started and waited for, took of the processors. */
  cpuSeconds(): number;
  close(): Promise<void>;
}

function ask(
  socketPath: string,
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const headers = { 'content-type': 'application/json' };
  const asked = request({ socketPath, method, path: `/v1.41${path}`, headers, agent: false }, (reply) => {
    let text = '';
    reply.setEncoding('utf8');
    reply.on('data', (chunk) => {
      text += chunk;
    });
    reply.on('end', () => resolve({ status: reply.statusCode ?? 0, text }));
  });
  asked.on('error', reject);
  asked.end(body && JSON.stringify(body));
  return promise;
}

const ticksPerSecond = 100;

/** Own time and that of the children it has waited for. */
function cpuSecondsOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / ticksPerSecond;
}

const mountsBelow = (directory: string): string[] =>
  readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path.startsWith(`${directory}/`))
    .toReversed();

export async function startPodman(options: { registries?: string } = {}): Promise<Podman> {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-podman-'));
  const conf = join(directory, 'containers.conf');
  const registries = join(directory, 'registries.conf');
  const socket = join(directory, 'podman.sock');
  writeFileSync(conf, settings);
  writeFileSync(registries, options.registries ?? '');
  const env = { ...process.env, CONTAINERS_CONF: conf, CONTAINERS_REGISTRIES_CONF: registries };
  const places = ['--root', join(directory, 'root'), '--runroot', join(directory, 'run')];
  const image = 'localhost/slipway-test:latest';
  execFileSync('podman', [...places, 'import', '-q', '--change', `ENTRYPOINT ${JSON.stringify(standIn)}`, '-', image], {
    env,
    input: imageLayer(),
    stdio: ['pipe', 'ignore', 'pipe'],
  });

  let service: ChildProcess | null = null;
  let spent = 0;
  const call: Podman['call'] = async (method, path, body) => {
    const { status, text } = await ask(socket, method, path, body);
    return { status, body: /^[[{]/.test(text) ? JSON.parse(text) : null };
  };
  const containers: Podman['containers'] = async (labels = {}) => {
    const label = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
    const query = new URLSearchParams({ all: 'true', filters: JSON.stringify({ label }) });
    return (await call<WireContainer[]>('GET', `/containers/json?${query}`)).body;
  };
  const start = async () => {
    if (service) return;
    service = spawn('podman', [...places, 'system', 'service', '--time=0', `unix://${socket}`], {
      env,
      stdio: 'ignore',
    });
    await until('the engine to answer', async () => {
      if (!existsSync(socket)) return undefined;
      return (await call('GET', '/_ping').catch(() => undefined))?.status === 200 ? true : undefined;
    });
  };
  const stop = async () => {
    const ending = service;
    if (!ending?.pid) return;
    spent += cpuSecondsOf(ending.pid);
    service = null;
    const ended = new Promise((resolve) => ending.once('exit', resolve));
    ending.kill('SIGKILL');
    await ended;
    rmSync(socket, { force: true });
  };

  await start();
  return {
    docker_host: `unix://${socket}`,
    image,
    call,
    containers,
    start,
    stop,
    cpuSeconds: () => spent + (service?.pid ? cpuSecondsOf(service.pid) : 0),
    async close() {
      if (!service) await start();
      for (const { Id } of await containers()) await call('DELETE', `/containers/${Id}?force=true`);
      await stop();
      // What the engine started to clean up after its containers may outlive it, and mounts and unmounts for a moment longer.
      await until('the directory of the engine to be removed', () => {
        for (const path of mountsBelow(directory)) spawnSync('umount', [path]);
        try {
          rmSync(directory, { recursive: true, force: true });
        } catch (error) {
          if (!/busy/i.test(String(error))) throw error;
        }
        return !existsSync(directory);
      });
    },
  };
}
