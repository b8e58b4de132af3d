/**
 * Cleans up everything a benchmark started or created, however it ends: normally, by an error,
 * Ctrl-C or a signal. Each item is registered before it starts and ended in reverse order; a second
 * signal exits at once.
 */
import { chmodSync, mkdtempSync, readlinkSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pause, systemClock } from '../../src/base/clock.ts';
import { processes, readOr } from './process-table.ts';

type End = () => Promise<void>;

const cleanups = new Set<End>();
const directories = new Map<string, End>();
const goneWithinMs = 10_000;
let isEnding = false;
let isListening = false;

/** Code that still runs during cleanup must not start anything new. */
export function refuseWhileEnding(): void {
  if (isEnding) throw new Error('the benchmark is being ended');
}

/**
 * Registers a cleanup until it has run. The returned function runs it once; later calls wait for
 * the same run.
 */
export function whenOver(end: () => Promise<unknown>): End {
  refuseWhileEnding();
  listen();
  let cleanup: Promise<void> | undefined;
  const once = () => {
    cleanup ??= end().then(() => void cleanups.delete(once));
    return cleanup;
  };
  cleanups.add(once);
  return once;
}

/** Readable by all users, because the database may run as another user. */
export async function freshDirectory(): Promise<string> {
  const remove = whenOver(async () => {
    await endAllIn(directory);
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
 * PostgreSQL forwards the signal to its children and cleans up shared memory. Everything else we
 * start is a Node process.
 */
const lastWords: Record<string, NodeJS.Signals> = { postgres: 'SIGQUIT', [basename(process.execPath)]: 'SIGKILL' };

function programOf(pid: string): string {
  try {
    return basename(readlinkSync(`/proc/${pid}/exe`));
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}

/** Our processes with the directory in their command line; its name is unique. */
const startedIn = (directory: string): { pid: number; signal: NodeJS.Signals }[] =>
  processes().flatMap((pid) => {
    const isOurs = Number(pid) !== process.pid && readOr(`/proc/${pid}/cmdline`, '').includes(directory);
    const signal = isOurs ? lastWords[programOf(pid)] : undefined;
    return signal ? [{ pid: Number(pid), signal }] : [];
  });

function endNow(directory: string): void {
  for (const { pid, signal } of startedIn(directory)) sendSignal(pid, signal);
}

/** Machines of a server outlive it by design, and so does the database of a killed server. */
async function endAllIn(directory: string): Promise<void> {
  const untilMs = systemClock.monotonicMs() + goneWithinMs;
  endNow(directory);
  while (startedIn(directory).length > 0 && systemClock.monotonicMs() < untilMs) await pause(systemClock, 20);
}

/** The process may have ended meanwhile. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

async function endAll(code: number): Promise<void> {
  if (isEnding) process.exit(code);
  isEnding = true;
  // A failed step does not stop the others; remaining processes are found by directory.
  for (const end of [...cleanups].toReversed())
    await end().catch((error: unknown) => void process.stderr.write(`while ending: ${error}\n`));
  process.exit(code);
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

function listen(): void {
  if (isListening) return;
  isListening = true;
  for (const signal of signals) process.on(signal, () => void endAll(128 + constants.signals[signal]));
  process.on('uncaughtException', (error) => {
    // Work in progress loses its servers during cleanup; ignore its errors.
    if (isEnding) return;
    process.stderr.write(`${error.stack ?? error}\n`);
    void endAll(1);
  });
  process.on('exit', () => {
    for (const directory of directories.keys()) {
      endNow(directory);
      rmSync(directory, { recursive: true, force: true });
    }
  });
}
