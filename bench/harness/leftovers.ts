/**
 * What a benchmark has started and made, so that nothing of it is left however the benchmark ends: by itself, by an error, by Ctrl-C or
 * by a signal. Each is remembered before it begins, and ended in the opposite order; the second signal is not asked to wait.
 */
import { chmodSync, mkdtempSync, readlinkSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pause, systemClock } from '../../src/base/clock.ts';
import { processes, readOr } from './process-table.ts';

type End = () => Promise<void>;

const left = new Set<End>();
const directories = new Map<string, End>();
const goneWithinMs = 10_000;
let isEnding = false;
let isListening = false;

/** What runs on while everything is being ended must not begin anything new. */
export function refuseWhileEnding(): void {
  if (isEnding) throw new Error('the benchmark is being ended');
}

/** Remembers it until it has been ended. What comes back ends it once, whoever asks first; the others wait for the same. */
export function whenOver(end: () => Promise<unknown>): End {
  refuseWhileEnding();
  listen();
  let ending: Promise<void> | undefined;
  const once = () => {
    ending ??= end().then(() => void left.delete(once));
    return ending;
  };
  left.add(once);
  return once;
}

/** One that everybody may enter, because the database may run as somebody else. */
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

/** PostgreSQL tells its children itself, and leaves nothing in shared memory. Whatever else we start is a Node process. */
const lastWords: Record<string, NodeJS.Signals> = { postgres: 'SIGQUIT', [basename(process.execPath)]: 'SIGKILL' };

function programOf(pid: string): string {
  try {
    return basename(readlinkSync(`/proc/${pid}/exe`));
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}

/** Programs of ours that name the directory in what they were started with; its name is nobody else's. */
const startedIn = (directory: string): { pid: number; signal: NodeJS.Signals }[] =>
  processes().flatMap((pid) => {
    const isOurs = Number(pid) !== process.pid && readOr(`/proc/${pid}/cmdline`, '').includes(directory);
    const signal = isOurs ? lastWords[programOf(pid)] : undefined;
    return signal ? [{ pid: Number(pid), signal }] : [];
  });

function endNow(directory: string): void {
  for (const { pid, signal } of startedIn(directory)) tell(pid, signal);
}

/** Machines of a server outlive it, as they should, and so does the database of one that was killed. */
async function endAllIn(directory: string): Promise<void> {
  const untilMs = systemClock.monotonicMs() + goneWithinMs;
  endNow(directory);
  while (startedIn(directory).length > 0 && systemClock.monotonicMs() < untilMs) await pause(systemClock, 20);
}

/** One that has ended meanwhile needs no telling. */
export function tell(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

async function endAll(code: number): Promise<void> {
  if (isEnding) process.exit(code);
  isEnding = true;
  // A step that fails leaves the others to be done; whatever stays is found by its directory.
  for (const end of [...left].toReversed())
    await end().catch((error: unknown) => void process.stderr.write(`while ending: ${error}\n`));
  process.exit(code);
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

function listen(): void {
  if (isListening) return;
  isListening = true;
  for (const signal of signals) process.on(signal, () => void endAll(128 + constants.signals[signal]));
  process.on('uncaughtException', (error) => {
    // What was still at work loses its servers while they are ended; that says nothing.
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
