/** What the driver asks of a Docker engine, in its own few words. The only file that knows dockerode, and loads it when first asked. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type Docker from 'dockerode';
import { firstFile } from '../../base/files/tar.ts';
import { statusOf } from '../upstream-error.ts';
import { isConflict, isInvalidName, isMissing, isNotRunning } from './engine-error.ts';
import type { Labels } from './labels.ts';
import { linesOf } from './log-stream.ts';
import type { RegistryAuth } from './registry-auth.ts';

export interface ContainerRow {
  id: string;
  labels: Labels;
  /** The engine's own word: created, running, exited … */
  state: string;
  /** The same for people: "Up 3 minutes". */
  status: string;
}

export interface ContainerEnd {
  exit_code: number;
  out_of_memory: boolean;
  error: string;
  finished_at: string;
}

export interface PullEvent {
  layer: string | null;
  status: string;
  current: number | null;
  total: number | null;
}

export interface Engine {
  readonly address: string;
  /** Reached by a socket of this host: its containers can be given files of this host, and no other host sees them. */
  readonly on_this_host: boolean;
  list(labels: Labels): Promise<ContainerRow[]>;
  /** Null where there is none. Takes an id or a name. */
  labelsOf(container: string): Promise<Labels | null>;
  endOf(container: string): Promise<ContainerEnd | null>;
  /** Under which user its containers run; null where the engine does not have the image. */
  userOf(image: string): Promise<string | null>;
  pull(
    image: string,
    auth: RegistryAuth | null,
    onEvent: (event: PullEvent) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** False where somebody has the name already. */
  create(options: Docker.ContainerCreateOptions): Promise<boolean>;
  /** Unpacks an archive at the container's root. */
  put(container: string, archive: Buffer): Promise<void>;
  /** One that runs already is fine. */
  start(container: string): Promise<void>;
  /** One that does not run, or is gone, is fine. */
  kill(container: string, signal: NodeJS.Signals): Promise<void>;
  /** One that is gone, or just going, is fine. */
  remove(container: string): Promise<void>;
  lastLines(container: string, count: number): Promise<string>;
  /** Null where there is no such file. */
  fileIn(container: string, path: string): Promise<string | null>;
}

export interface EngineOptions {
  /** ca.pem, cert.pem and key.pem, for engines that want TLS. */
  cert_dir: string | null;
}

/** An engine that is silent for so long is not there; whoever called was answered long before. */
const silent_ms = 60_000;
/** A layer that is unpacked says nothing for minutes. */
const silent_pull_ms = 900_000;

async function connection(address: string, { cert_dir }: EngineOptions): Promise<Docker.DockerOptions> {
  if (address.startsWith('unix://')) return { socketPath: address.slice('unix://'.length) };
  const { hostname, port, protocol } = new URL(address);
  const secure = protocol === 'https:' || (protocol === 'tcp:' && cert_dir !== null);
  const pem = (name: string) => (cert_dir ? readFile(join(cert_dir, name)) : undefined);
  const host = hostname.replace(/^\[|\]$/g, '');
  if (!secure) return { host, port: port || 2375, protocol: 'http' };
  const [ca, cert, key] = await Promise.all(['ca.pem', 'cert.pem', 'key.pem'].map(pem));
  return { host, port: port || 2376, protocol: 'https', ...(ca && cert && key && { ca, cert, key }) };
}

const none = (): null => null;

/** Answers null where the engine says that there is none; every other refusal is thrown on. */
const orNull = <T>(asked: Promise<T>): Promise<T | null> => asked.catch(orThrow(isMissing, none));

function orThrow<T>(expected: (error: unknown) => boolean, answer: () => T) {
  return (error: unknown): T => {
    if (!expected(error)) throw error;
    return answer();
  };
}

async function bytesOf(stream: NodeJS.ReadableStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

interface WirePull {
  id?: string;
  status?: string;
  progressDetail?: { current?: number; total?: number };
  error?: string;
}

const eventOf = ({ id, status = '', progressDetail }: WirePull): PullEvent => ({
  layer: id ?? null,
  status,
  current: progressDetail?.current ?? null,
  total: progressDetail?.total ?? null,
});

export async function openEngine(address: string, options: EngineOptions): Promise<Engine> {
  // Start-up and memory do not pay for it where no pool uses this driver.
  const { default: Client } = await import('dockerode');
  const connect = await connection(address, options);
  const docker = new Client({ ...connect, timeout: silent_ms });
  const puller = new Client({ ...connect, timeout: silent_pull_ms });
  const container = (id: string) => docker.getContainer(id);
  return {
    address,
    on_this_host: address.startsWith('unix://'),
    async list(labels) {
      const label = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
      const rows = await docker.listContainers({ all: true, filters: { label } });
      return rows.map(({ Id, Labels, State, Status }) => ({
        id: Id,
        labels: Labels ?? {},
        state: State,
        status: Status,
      }));
    },
    async labelsOf(id) {
      const seen = await orNull(container(id).inspect());
      return seen && (seen.Config.Labels ?? {});
    },
    async endOf(id) {
      const seen = await orNull(container(id).inspect());
      if (!seen) return null;
      const { ExitCode, OOMKilled, Error: error, FinishedAt } = seen.State;
      return { exit_code: ExitCode, out_of_memory: OOMKilled, error, finished_at: FinishedAt };
    },
    async userOf(image) {
      // No engine has an image under an invalid name. The pull then fails, and says so.
      const seen = await docker
        .getImage(image)
        .inspect()
        .catch(orThrow((error) => isMissing(error) || isInvalidName(error), none));
      return seen && (seen.Config?.User ?? '');
    },
    async pull(image, auth, onEvent, signal) {
      const stream = await puller.pull(image, { abortSignal: signal, ...(auth && { authconfig: auth }) });
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      // What went wrong at the registry is told in the stream, which then ends well.
      let refused: string | null = null;
      puller.modem.followProgress(
        stream,
        (error) => (error ? reject(error) : resolve()),
        (event: WirePull) => {
          refused = event.error ?? refused;
          onEvent(eventOf(event));
        },
      );
      await promise;
      if (refused !== null) throw new Error(refused);
    },
    create: (asked) =>
      docker.createContainer(asked).then(
        () => true,
        orThrow(isConflict, () => false),
      ),
    async put(id, archive) {
      await container(id).putArchive(archive, { path: '/' });
    },
    async start(id) {
      await container(id)
        .start()
        .catch(orThrow((error) => statusOf(error) === 304, none));
    },
    async kill(id, signal) {
      await container(id)
        .kill({ signal })
        .catch(orThrow((error) => isMissing(error) || isNotRunning(error), none));
    },
    async remove(id) {
      await container(id)
        .remove({ force: true, v: true })
        .catch(orThrow((error) => isMissing(error) || isConflict(error), none));
    },
    async lastLines(id, tail) {
      return linesOf(await container(id).logs({ stdout: true, stderr: true, follow: false, tail }));
    },
    async fileIn(id, path) {
      const stream = await orNull(container(id).getArchive({ path }));
      return stream && (firstFile(await bytesOf(stream))?.toString('utf8') ?? null);
    },
  };
}
