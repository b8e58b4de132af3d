/** Settings that make the embedded server durable, quick to start and small while idle. */
import { totalmem } from 'node:os';
import { join } from 'node:path';

export type Settings = Readonly<Record<string, string>>;

const minBuffersMb = 128;
const maxBuffersMb = 1024;

/**
 * A sixteenth of the memory, within bounds, so that the indexes of a million nodes stay cached.
 * PostgreSQL touches the pages as data arrives, so an idle server stays small.
 */
export const computeBuffersMb = (memoryBytes: number): number =>
  Math.round(Math.min(maxBuffersMb, Math.max(minBuffersMb, memoryBytes / 2 ** 20 / 16)));

/** The limit of the container, or else the memory of the machine. */
const readMemoryBytes = () => process.constrainedMemory() || totalmem();

export const defaultSettings: Settings = {
  // These save processes and memory: no asynchronous I/O workers, no replication, no JIT compiler.
  io_method: 'sync',
  max_logical_replication_workers: '0',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  // Parallel workers take CPU from concurrent queries, and starting them takes longer than most
  // queries run.
  max_parallel_workers_per_gather: '0',
  max_connections: '100',
  // A timeline query locks every partition of evidence and its indexes, some 400 locks.
  max_locks_per_transaction: '256',
  // The first change of a page after a checkpoint logs the whole page. Verdicts on a large fleet
  // change pages everywhere, so with the default checkpoint rate most of the log would be full
  // pages. A small fleet never fills a log of this size.
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  shared_buffers: `${computeBuffersMb(Math.min(readMemoryBytes(), totalmem()))}MB`,
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_min_messages: 'warning',
  log_line_prefix: '%m [%p] ',
  log_checkpoints: 'off',
};

/** For tests, which need no durability. */
export const volatileSettings: Settings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' };

export const isDurable = (settings: Settings) => settings.fsync !== 'off';

/** The limit of Linux. */
const longestSocketPath = 107;

export const socketPath = (directory: string, port: number) => join(directory, `.s.PGSQL.${port}`);

/**
 * Returns the cluster's own directory, which other accounts cannot enter, or undefined if the path
 * would be too long. A query through a Unix socket costs a third less than through TCP.
 */
export const socketDirectory = (clusterDir: string, port: number): string | undefined =>
  Buffer.byteLength(socketPath(clusterDir, port)) <= longestSocketPath ? clusterDir : undefined;

export function serverArguments(clusterDir: string, port: number, settings: Settings): string[] {
  const all: Settings = {
    ...defaultSettings,
    ...settings,
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: socketDirectory(clusterDir, port) ?? '',
  };
  return ['-D', clusterDir, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}
