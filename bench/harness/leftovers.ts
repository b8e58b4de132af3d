/**
 * Cleans up everything a benchmark started or created, however the benchmark ends: normally, by an
 * error, by Ctrl-C or by a signal. Each cleanup is registered before its resource is started, and
 * cleanups run in reverse order. A second signal exits at once.
 */
import { chmodSync, mkdtempSync, readlinkSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pause, systemClock } from '../../src/base/clock.ts';
import { listProcessIds, readOr } from './process-table.ts';

type Cleanup = () => Promise<void>;

const cleanups = new Set<Cleanup>();
const directories = new Map<string, Cleanup>();
const exitTimeoutMs = 10_000;
let isEnding = false;
let isListening = false;

/** Throws during cleanup, so that code that is still running cannot start anything new. */
export function refuseDuringCleanup(): void {
  if (isEnding) throw new Error('the benchmark is shutting down');
}

/**
 * Registers a cleanup that runs when a signal or an uncaught error ends the benchmark. On the
 * normal path the caller runs it with the returned function. The cleanup runs only once; later
 * calls wait for the same run.
 */
export function registerCleanup(cleanup: () => Promise<unknown>): Cleanup {
  refuseDuringCleanup();
  listenForExit();
  let running: Promise<void> | undefined;
  const once = () => {
    running ??= cleanup().then(() => void cleanups.delete(once));
    return running;
  };
  cleanups.add(once);
  return once;
}

/**
 * Creates a temporary directory. Its cleanup also ends the processes that were started in it. All
 * users can read the directory, because the database may run as another user.
 */
export async function freshDirectory(): Promise<string> {
  const remove = registerCleanup(async () => {
    await endProcessesIn(directory);
    await rm(directory, { recursive: true, force: true });
    directories.delete(directory);
  });
  const directory = mkdtempSync(join(tmpdir(), 'slipway-bench-'));
  chmodSync(directory, 0o755);
  directories.set(directory, remove);
  return directory;
}

export const removeDirectory = (directory: string): Promise<void> =>
  directories.get(directory)?.() ?? rm(directory, { recursive: true, force: true });

/**
 * The signal that ends each program; other programs get none. On SIGQUIT, PostgreSQL ends its
 * children and frees its shared memory. Servers, agents and machines run in Node.
 */
const endSignals: Record<string, NodeJS.Signals> = { postgres: 'SIGQUIT', [basename(process.execPath)]: 'SIGKILL' };

/**
 * The name of the program that a process runs, or '' if it cannot be read, for example after it
 * exited.
 */
function programOf(pid: string): string {
  try {
    return basename(readlinkSync(`/proc/${pid}/exe`));
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}

/**
 * The processes with the directory in their command line, and the signal that ends each. The name
 * of the directory is unique, so these processes belong to this benchmark.
 */
const processesIn = (directory: string): { pid: number; signal: NodeJS.Signals }[] =>
  listProcessIds().flatMap((pid) => {
    const isOurs = Number(pid) !== process.pid && readOr(`/proc/${pid}/cmdline`, '').includes(directory);
    const signal = isOurs ? endSignals[programOf(pid)] : undefined;
    return signal ? [{ pid: Number(pid), signal }] : [];
  });

function signalProcessesIn(directory: string): void {
  for (const { pid, signal } of processesIn(directory)) sendSignal(pid, signal);
}

/**
 * Ends processes that still run after the servers have stopped: machines outlive their server by
 * design, and the database outlives a killed server.
 */
async function endProcessesIn(directory: string): Promise<void> {
  const giveUpMs = systemClock.monotonicMs() + exitTimeoutMs;
  signalProcessesIn(directory);
  while (processesIn(directory).length > 0 && systemClock.monotonicMs() < giveUpMs) await pause(systemClock, 20);
}

/** Does nothing if the process has ended. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

async function cleanUpAndExit(code: number): Promise<void> {
  if (isEnding) process.exit(code);
  isEnding = true;
  // A failed cleanup does not stop the others. The exit handler ends processes that remain.
  for (const cleanup of [...cleanups].toReversed())
    await cleanup().catch((error: unknown) => void process.stderr.write(`cleanup failed: ${error}\n`));
  process.exit(code);
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

function listenForExit(): void {
  if (isListening) return;
  isListening = true;
  for (const signal of signals) process.on(signal, () => void cleanUpAndExit(128 + constants.signals[signal]));
  process.on('uncaughtException', (error) => {
    // Cleanup stops servers that code in progress still calls, so errors are expected then.
    if (isEnding) return;
    process.stderr.write(`${error.stack ?? error}\n`);
    void cleanUpAndExit(1);
  });
  process.on('exit', () => {
    for (const directory of directories.keys()) {
      signalProcessesIn(directory);
      rmSync(directory, { recursive: true, force: true });
    }
  });
}
