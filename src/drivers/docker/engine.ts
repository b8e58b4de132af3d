/**
 * The driver's interface to a container engine, Docker or Podman. Only this file uses dockerode,
 * which is loaded at first use.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type Docker from 'dockerode';
import { firstFile } from '../../base/files/tar.ts';
import { statusOf } from '../upstream-error.ts';
import { isConflict, isInvalidName, isMissing, isNotRunning, isUnpackCollision, messageOf } from './engine-error.ts';
import type { Labels } from './labels.ts';
import type { RegistryAuth } from './registry-auth.ts';

const frameHeaderBytes = 8;
const hasFrames = (bytes: Buffer) =>
  bytes.length >= frameHeaderBytes && (bytes[0] ?? 3) <= 2 && bytes.readUIntBE(1, 3) === 0;

/** Decodes container output. It comes in frames unless the container has a terminal. */
function decodeOutput(bytes: Buffer): string {
  if (!hasFrames(bytes)) return bytes.toString('utf8');
  const parts: Buffer[] = [];
  for (let offset = 0; offset + frameHeaderBytes <= bytes.length; ) {
    const length = bytes.readUInt32BE(offset + 4);
    parts.push(bytes.subarray(offset + frameHeaderBytes, offset + frameHeaderBytes + length));
    offset += frameHeaderBytes + length;
  }
  return Buffer.concat(parts).toString('utf8');
}

export interface ContainerRow {
  id: string;
  labels: Labels;
  /** The engine's name of the state: created, running, exited … */
  state: string;
  /** The state as readable text, like "Up 3 minutes". */
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
   * True if the engine is reached by a socket of this host. Its containers can then mount files of
   * this host, and no other host can see them.
   */
  readonly on_this_host: boolean;
  list(labels: Labels): Promise<ContainerRow[]>;
  /** Takes an id or a name. Returns null if there is no such container. */
  readLabels(container: string): Promise<Labels | null>;
  readEnd(container: string): Promise<ContainerEnd | null>;
  /** The user of the image's containers; null if the engine does not have the image. */
  readImageUser(image: string): Promise<string | null>;
  pull(
    image: string,
    auth: RegistryAuth | null,
    onEvent: (event: PullEvent) => void,
    signal: AbortSignal,
  ): Promise<void>;
  /** Returns false if a container has the name already. */
  create(options: Docker.ContainerCreateOptions): Promise<boolean>;
  /** Unpacks an archive at the container's root. Returns a message if another call interfered. */
  put(container: string, archive: Buffer): Promise<string | null>;
  /** Does nothing if the container runs already. */
  start(container: string): Promise<void>;
  /** Does nothing if the container does not run or does not exist. */
  kill(container: string, signal: NodeJS.Signals): Promise<void>;
  /** Does nothing if the container does not exist or is being removed. */
  remove(container: string): Promise<void>;
  readLastLines(container: string, count: number): Promise<string>;
  /** Null if there is no such file. */
  readFileFrom(container: string, path: string): Promise<string | null>;
}

export interface EngineOptions {
  /** Directory of ca.pem, cert.pem and key.pem, for engines with TLS. */
  cert_dir: string | null;
}

/** Closes connections to an engine that hangs. Callers time out much earlier. */
const idle_timeout_ms = 60_000;
/** While the engine unpacks a layer, it can send nothing for minutes. */
const pull_idle_timeout_ms = 900_000;

async function connectionOptions(address: string, { cert_dir }: EngineOptions): Promise<Docker.DockerOptions> {
  if (address.startsWith('unix://')) return { socketPath: address.slice('unix://'.length) };
  const { hostname, port, protocol } = new URL(address);
  const secure = protocol === 'https:' || (protocol === 'tcp:' && cert_dir !== null);
  const pem = (name: string) => (cert_dir ? readFile(join(cert_dir, name)) : undefined);
  const host = hostname.replace(/^\[|\]$/g, '');
  if (!secure) return { host, port: port || 2375, protocol: 'http' };
  const [ca, cert, key] = await Promise.all(['ca.pem', 'cert.pem', 'key.pem'].map(pem));
  return { host, port: port || 2376, protocol: 'https', ...(ca && cert && key && { ca, cert, key }) };
}

const returnNull = (): null => null;

/** Returns null if the engine answers 404. Rethrows other errors. */
const nullIfMissing = <T>(answer: Promise<T>): Promise<T | null> => answer.catch(answerIf(isMissing, returnNull));

function answerIf<T>(expected: (error: unknown) => boolean, answer: (error: unknown) => T) {
  return (error: unknown): T => {
    if (!expected(error)) throw error;
    return answer(error);
  };
}

async function bytesOf(stream: NodeJS.ReadableStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

interface WirePullEvent {
  id?: string;
  status?: string;
  progressDetail?: { current?: number; total?: number };
  error?: string;
}

const eventOf = ({ id, status = '', progressDetail }: WirePullEvent): PullEvent => ({
  layer: id ?? null,
  status,
  current: progressDetail?.current ?? null,
  total: progressDetail?.total ?? null,
});

export async function openEngine(address: string, options: EngineOptions): Promise<Engine> {
  // Loaded only if a pool uses this driver, which saves start-up time and memory.
  const { default: Client } = await import('dockerode');
  const connection = await connectionOptions(address, options);
  const docker = new Client({ ...connection, timeout: idle_timeout_ms });
  const puller = new Client({ ...connection, timeout: pull_idle_timeout_ms });
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
    async readLabels(id) {
      const details = await nullIfMissing(container(id).inspect());
      return details && (details.Config.Labels ?? {});
    },
    async readEnd(id) {
      const details = await nullIfMissing(container(id).inspect());
      if (!details) return null;
      const { ExitCode, OOMKilled, Error: error, FinishedAt } = details.State;
      return { exit_code: ExitCode, out_of_memory: OOMKilled, error, finished_at: FinishedAt };
    },
    async readImageUser(image) {
      // An invalid name means that the engine has no such image. The pull reports the invalid name.
      const details = await docker
        .getImage(image)
        .inspect()
        .catch(answerIf((error) => isMissing(error) || isInvalidName(error), returnNull));
      return details && (details.Config?.User ?? '');
    },
    async pull(image, auth, onEvent, signal) {
      const stream = await puller.pull(image, { abortSignal: signal, ...(auth && { authconfig: auth }) });
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      // The stream reports a registry error in an event and then ends normally.
      let registryError: string | null = null;
      puller.modem.followProgress(
        stream,
        (error) => (error ? reject(error) : resolve()),
        (event: WirePullEvent) => {
          registryError = event.error ?? registryError;
          onEvent(eventOf(event));
        },
      );
      await promise;
      if (registryError !== null) throw new Error(registryError);
    },
    create: (request) =>
      docker.createContainer(request).then(
        () => true,
        answerIf(isConflict, () => false),
      ),
    async put(id, archive) {
      return container(id).putArchive(archive, { path: '/' }).then(returnNull, answerIf(isUnpackCollision, messageOf));
    },
    async start(id) {
      await container(id)
        .start()
        .catch(answerIf((error) => statusOf(error) === 304, returnNull));
    },
    async kill(id, signal) {
      await container(id)
        .kill({ signal })
        .catch(answerIf((error) => isMissing(error) || isNotRunning(error), returnNull));
    },
    async remove(id) {
      await container(id)
        .remove({ force: true, v: true })
        .catch(answerIf((error) => isMissing(error) || isConflict(error), returnNull));
    },
    async readLastLines(id, tail) {
      return decodeOutput(await container(id).logs({ stdout: true, stderr: true, follow: false, tail }));
    },
    async readFileFrom(id, path) {
      const stream = await nullIfMissing(container(id).getArchive({ path }));
      return stream && (firstFile(await bytesOf(stream))?.toString('utf8') ?? null);
    },
  };
}
