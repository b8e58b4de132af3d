/**
 * The driver's interface to a Docker engine. The only file that uses dockerode, which is loaded at
 * first use.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type Docker from 'dockerode';
import { firstFile } from '../../base/files/tar.ts';
import { statusOf } from '../upstream-error.ts';
import { isConflict, isInvalidName, isMissing, isNotRunning } from './engine-error.ts';
import type { Labels } from './labels.ts';
import type { RegistryAuth } from './registry-auth.ts';

const frameHead = 8;
const isFramed = (bytes: Buffer) => bytes.length >= frameHead && (bytes[0] ?? 3) <= 2 && bytes.readUIntBE(1, 3) === 0;

/** Decodes output of a container: frames (stream, length, bytes) unless it has a terminal. */
function linesOf(bytes: Buffer): string {
  if (!isFramed(bytes)) return bytes.toString('utf8');
  const parts: Buffer[] = [];
  for (let at = 0; at + frameHead <= bytes.length; ) {
    const length = bytes.readUInt32BE(at + 4);
    parts.push(bytes.subarray(at + frameHead, at + frameHead + length));
    at += frameHead + length;
  }
  return Buffer.concat(parts).toString('utf8');
}

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
  /**
   * Reached by a socket of this host: its containers can mount files of this host, and no other
   * host sees them.
   */
  readonly on_this_host: boolean;
  list(labels: Labels): Promise<ContainerRow[]>;
  /** Null if there is none. Takes an id or a name. */
  labelsOf(container: string): Promise<Labels | null>;
  endOf(container: string): Promise<ContainerEnd | null>;
  /** The user of the image's containers; null if the engine does not have the image. */
  userOf(image: string): Promise<string | null>;
  pull(
    image: string,
    auth: RegistryAuth | null,
    onEvent: (event: PullEvent) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** Returns false if the name is taken. */
  create(options: Docker.ContainerCreateOptions): Promise<boolean>;
  /** Unpacks an archive at the container's root. */
  put(container: string, archive: Buffer): Promise<void>;
  /** Does nothing if it runs already. */
  start(container: string): Promise<void>;
  /** Does nothing if it does not run or is gone. */
  kill(container: string, signal: NodeJS.Signals): Promise<void>;
  /** Does nothing if it is gone or being removed. */
  remove(container: string): Promise<void>;
  lastLines(container: string, count: number): Promise<string>;
  /** Null if there is no such file. */
  fileIn(container: string, path: string): Promise<string | null>;
}

export interface EngineOptions {
  /** Directory of ca.pem, cert.pem and key.pem, for engines with TLS. */
  cert_dir: string | null;
}

/** Closes connections to an engine that hangs; callers have timed out long before. */
const silent_ms = 60_000;
/** Unpacking a layer can be silent for minutes. */
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

/** Returns null if the engine has none; other refusals are rethrown. */
const orNull = <T>(answer: Promise<T>): Promise<T | null> => answer.catch(orThrow(isMissing, none));

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
  // Loaded only if a pool uses this driver, for start-up time and memory.
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
      // The stream reports a registry error in an event and then ends normally.
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
    create: (request) =>
      docker.createContainer(request).then(
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
