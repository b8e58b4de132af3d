/** Finds the postmaster of a cluster by its pid file and /proc, and stops it. */
import { linkSync, readFileSync, readlinkSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Clock, pause } from '../../../base/clock.ts';
import { EmbeddedPostgresError, hasErrorCode } from './embedded-error.ts';

export interface Postmaster {
  pid: number;
  port: number;
  isReady: boolean;
}

const pidFileOf = (clusterDir: string) => join(clusterDir, 'postmaster.pid');
const pollMs = 10;

function readIfExists(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    // ESRCH means that the process of a /proc file ended while the file was read.
    if (hasErrorCode(error, 'ENOENT', 'ESRCH')) return undefined;
    throw error;
  }
}

/** A zombie does not count as alive. In a container, its parent may never reap it. */
export function isProcessAlive(pid: number): boolean {
  const stat = readIfExists(`/proc/${pid}/stat`);
  const state = stat?.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
  return state !== undefined && state !== 'Z' && state !== 'X';
}

/**
 * Process ids are reused, so only a `postgres` with this working directory is the postmaster. A
 * postmaster enters the directory before it writes its pid file, so a starting one passes too.
 */
function isPostmasterOf(pid: number, clusterDir: string): boolean {
  if (!isProcessAlive(pid)) return false;
  try {
    const program = basename(readlinkSync(`/proc/${pid}/exe`)).replace(/ \(deleted\)$/, '');
    return program === 'postgres' && readlinkSync(`/proc/${pid}/cwd`) === realpathSync(clusterDir);
  } catch (error) {
    // The process has ended, or belongs to another account, which cannot have opened this
    // directory.
    if (hasErrorCode(error, 'EACCES', 'EPERM', 'ENOENT', 'ESRCH')) return false;
    throw error;
  }
}

/** Returns the live postmaster of the cluster. Removes the pid file of any other process. */
export function findPostmaster(clusterDir: string): Postmaster | undefined {
  const content = readIfExists(pidFileOf(clusterDir));
  if (content === undefined) return undefined;
  const lines = content.split('\n');
  const pid = Number(lines[0]);
  if (isPostmasterOf(pid, clusterDir)) {
    return { pid, port: Number(lines[3]), isReady: lines[7]?.trim() === 'ready' };
  }
  // An empty file has no pid yet, because a postmaster is just writing it.
  if (pid > 0) removeStalePidFile(clusterDir, content);
  return undefined;
}

/** A concurrent start may have written its own file since we read it. That file is put back. */
function removeStalePidFile(clusterDir: string, stale: string): void {
  const file = pidFileOf(clusterDir);
  const aside = `${file}.${process.pid}`;
  try {
    renameSync(file, aside);
    if (readFileSync(aside, 'utf8') !== stale) linkSync(aside, file);
    rmSync(aside);
  } catch (error) {
    if (!hasErrorCode(error, 'ENOENT', 'EEXIST')) throw error;
  }
}

/**
 * Requests a fast shutdown if this process exits without `stopPostmaster`, for example at a second
 * Ctrl-C. Returns a function that removes the exit handler.
 */
export function stopAtExit(pid: number, clusterDir: string): () => void {
  const stop = () => {
    if (isPostmasterOf(pid, clusterDir)) process.kill(pid, 'SIGINT');
  };
  process.once('exit', stop);
  return () => process.off('exit', stop);
}

const fastStopMs = 30_000;
const immediateStopMs = 10_000;

/**
 * Requests a fast shutdown, and an immediate one if that takes too long. The next start recovers
 * from an immediate shutdown with the write-ahead log.
 */
export async function stopPostmaster(pid: number, clock: Clock): Promise<void> {
  if (await endsAfter('SIGINT', pid, fastStopMs, clock)) return;
  if (await endsAfter('SIGQUIT', pid, immediateStopMs, clock)) return;
  throw new EmbeddedPostgresError(
    'stop_failed',
    `PostgreSQL (process ${pid}) does not stop.`,
    'Read its log in the data directory. SIGKILL is safe: the next start recovers.',
  );
}

async function endsAfter(signal: NodeJS.Signals, pid: number, withinMs: number, clock: Clock): Promise<boolean> {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (hasErrorCode(error, 'ESRCH')) return true;
    throw error;
  }
  const giveUpAt = clock.monotonicMs() + withinMs;
  while (isProcessAlive(pid)) {
    if (clock.monotonicMs() > giveUpAt) return false;
    await pause(clock, pollMs);
  }
  return true;
}
