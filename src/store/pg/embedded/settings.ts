/** How the embedded server is tuned: durable, quick to start, and small while idle. */
import { totalmem } from 'node:os';
import { join } from 'node:path';

export type Settings = Readonly<Record<string, string>>;

const leastBuffersMb = 128;
const mostBuffersMb = 1024;

/**
 * A sixteenth of the memory there is, within bounds. Pages are taken as data comes, so an idle server stays small, and a fleet of a
 * million does not read its indexes from the system again and again.
 */
export const buffersMb = (memoryBytes: number): number =>
  Math.round(Math.min(mostBuffersMb, Math.max(leastBuffersMb, memoryBytes / 2 ** 20 / 16)));

/** What a container may use, where one is set; otherwise what the machine has. */
const memoryBytes = () => process.constrainedMemory() || totalmem();

export const defaultSettings: Settings = {
  // A few processes and their memory less: no asynchronous-I/O workers, no replication, no just-in-time compiler.
  io_method: 'sync',
  max_logical_replication_workers: '0',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  // Helpers of one question take the processors from a thousand others, and starting them takes longer than most questions.
  max_parallel_workers_per_gather: '0',
  max_connections: '100',
  // A page of a timeline locks every piece of the evidence and its indexes, some four hundred; many are read at once.
  max_locks_per_transaction: '256',
  // After a checkpoint, each page is logged whole when it is first changed again. Verdicts on a large fleet change pages everywhere, and
  // with checkpoints as frequent as by default most of what they log is that. A small fleet reaches neither bound.
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  shared_buffers: `${buffersMb(Math.min(memoryBytes(), totalmem()))}MB`,
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_min_messages: 'warning',
  log_line_prefix: '%m [%p] ',
  log_checkpoints: 'off',
};

/** For tests, whose data may be lost: no waiting for the disk. */
export const volatileSettings: Settings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' };

export const isDurable = (settings: Settings) => settings.fsync !== 'off';

/** Longer names of sockets the system does not take. */
const longestSocketPath = 107;

/** Of the socket that the server makes in a directory, for those who may enter that. */
export const socketPath = (directory: string, port: number) => join(directory, `.s.PGSQL.${port}`);

/**
 * In the cluster's own directory, which nobody else may enter. A question through a socket of files costs a third less than one
 * through the network of the host. Undefined where the name would be too long.
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
