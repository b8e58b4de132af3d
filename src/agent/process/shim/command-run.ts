/**
 * One run of the command, started by this agent or adopted from an earlier one. Follows the files
 * of the shim, which is the parent of the command.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, type FSWatcher, mkdirSync, openSync, rmSync, watch } from 'node:fs';
import { join } from 'node:path';
import { type Clock, pause } from '../../../base/clock.ts';
import { type Waker, waker } from '../../life/waker.ts';
import type { Log } from '../../log.ts';
import type { Spool } from '../../spool/spool.ts';
import { errorText } from '../../state/shape.ts';
import { endGroup, signalGroup } from '../process-group.ts';
import { isRunning, type ProcessId, readProcess } from '../process-table.ts';
import { outputReader } from './output-reader.ts';
import {
  type CommandEnd,
  type CommandSpec,
  outputDirectory,
  readEnded,
  readStarted,
  shimLogFile,
  unseenEnd,
} from './run-files.ts';
import { shimArgument } from './shim-argument.ts';

export interface RunParts {
  clock: Clock;
  log: Log;
  spool: Pick<Spool, 'lastSeq' | 'tail' | 'isCrowded'>;
  /** Program and arguments that run the agent's file. */
  agent_program: readonly string[];
}

export interface RunEvents {
  /** The command has a process. Its pid is also its group id. */
  launched(pid: number, isShimGone: boolean): void;
  line(line: string): void;
  ended(end: CommandEnd): void;
}

export interface CommandRun {
  /** Resolves when the shim has ended and all output was read, or after `leave`. */
  done: Promise<void>;
  /** Null until the command has a process. */
  pid(): number | null;
  shim: ProcessId | null;
  /** Whether this agent saw the shim running. Then the group is certainly the command's. */
  isGroupKnown(): boolean;
  /**
   * Ends the command with its process group, or the shim if the command has not started. Returns
   * whether all have ended. Leaves a group alone that may not be the command's, and returns true.
   */
  stop(grace_ms: number): Promise<boolean>;
  /** Resolves when the shim has ended and all output was read; ends the shim after a time limit. */
  waitForOutputEnd(): Promise<void>;
  /** Stops reading, because the next agent will read. Resolves when the last read has ended. */
  leave(): Promise<void>;
  /** Synchronous, so that an exiting agent can call it. */
  kill(): void;
}

/** File events of the shim wake the agent. Some systems lose events, so the agent also polls. */
const poll_ms = 1_000;
/** Events come in bursts. */
const burst_ms = 10;
/** The pause after each batch while the spool is crowded. */
const crowded_pause_ms = 50;
/** How long a shim may take to start the command. */
const max_launch_ms = 10_000;
const max_output_wait_ms = 5_000;

/** A shim needs little memory, and a machine has one for each command. */
const nodeOptions = ['--max-semi-space-size=1', '--max-old-space-size=64'];

type ReadResult = 'output' | 'no_output' | 'failed';

/** `onShim` is called before the shim can start the command. */
export function launchRun(
  parts: RunParts,
  directory: string,
  spec: CommandSpec,
  onShim: (shim: ProcessId) => void,
  events: RunEvents,
): CommandRun {
  mkdirSync(outputDirectory(directory), { recursive: true, mode: 0o700 });
  const [program = '', ...args] = parts.agent_program;
  const shimLog = openSync(shimLogFile(directory), 'a', 0o600);
  const child = spawn(program, [...nodeOptions, ...args, shimArgument, directory], {
    env: buildShimEnvironment(spec.env),
    detached: true,
    stdio: ['pipe', 'ignore', shimLog],
  });
  closeSync(shimLog);
  child.unref();
  const { pid } = child;
  const shim = pid === undefined ? null : { pid, start: readProcess(pid)?.start ?? '' };
  // Errors are ignored, because the end of the shim is reported as that of the command.
  child.on('error', () => {});
  child.stdin?.on('error', () => {});
  try {
    if (shim) onShim(shim);
    const run = followRun(parts, directory, shim, child, events);
    child.stdin?.end(JSON.stringify(spec));
    return run;
  } catch (error) {
    // Without the command, the shim would wait forever.
    child.kill('SIGKILL');
    throw error;
  }
}

export const adoptRun = (parts: RunParts, directory: string, shim: ProcessId | null, events: RunEvents): CommandRun =>
  followRun(parts, directory, shim, null, events);

/** Keeps only the tags by which drivers find processes and the variables that Node needs. */
const buildShimEnvironment = (env: Record<string, string>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).filter(
      ([name]) => ['PATH', 'NODE_COMPILE_CACHE'].includes(name) || /^SLIPWAY_(NODE|INSTALLATION)/.test(name),
    ),
  );

function followRun(
  parts: RunParts,
  directory: string,
  shim: ProcessId | null,
  child: ChildProcess | null,
  events: RunEvents,
): CommandRun {
  const { clock, log, spool } = parts;
  const stopFollowing = new AbortController();
  const wakeUp = waker(clock, stopFollowing.signal);
  mkdirSync(outputDirectory(directory), { recursive: true, mode: 0o700 });
  const output = outputReader({
    directory: outputDirectory(directory),
    position_file: join(directory, 'position'),
    log,
    spool,
    onLine: events.line,
  });
  let started: ProcessId | null = null;
  let end: CommandEnd | null = null;
  let childError: string | null = null;
  let isChildGone = child !== null && child.pid === undefined;
  let wasShimSeen = false;
  const listeners = new Set<() => void>();
  child?.once('error', ({ message }) => {
    childError = message;
    isChildGone = true;
    wakeUp.wake();
  });
  child?.once('exit', () => {
    isChildGone = true;
    wakeUp.wake();
  });
  const isShimGone = () => (child ? isChildGone : shim === null || !isRunning(shim));

  let isEndReported = false;
  let report_deadline_ms = Number.POSITIVE_INFINITY;
  /**
   * After the report no later agent reads the output, so all of it is copied first. But only for a
   * limited time: a daemon may write without end, and a full disk refuses the copy.
   */
  const reportEnd = (isCopied: boolean) => {
    if (end === null || isEndReported || !(isCopied || clock.monotonicMs() >= report_deadline_ms)) return;
    isEndReported = true;
    events.ended(end);
  };

  /** Reads what the shim wrote since the last call. */
  const readFiles = (isGone: boolean): ReadResult => {
    if (!isGone) wasShimSeen = true;
    started ??= readStartedOnce(isGone);
    // Read the end before the copy: the output of an ended command is complete.
    if (end === null) {
      end = readEnded(directory) ?? (isGone ? { ...unseenEnd, start_error: childError } : null);
      if (end !== null) report_deadline_ms = clock.monotonicMs() + max_output_wait_ms;
    }
    const result = tryRead(() => (output.copy() ? 'output' : 'no_output'));
    reportEnd(result === 'no_output');
    for (const listener of listeners) listener();
    return result;
  };
  const readStartedOnce = (isGone: boolean): ProcessId | null => {
    const value = readStarted(directory);
    if (value) events.launched(value.pid, isGone);
    return value;
  };

  /** Whether to stop waiting for output that cannot be copied. */
  let isGivingUp = false;
  let hasFailed = false;
  /** A full disk, or a segment that the shim drops meanwhile, must not end the agent. */
  const tryRead = (read: () => ReadResult): ReadResult => {
    try {
      return read();
    } catch (error) {
      if (!hasFailed)
        log.warn('the files of the command could not be used; trying again', { detail: errorText(error) });
      hasFailed = true;
      return 'failed';
    }
  };
  const follow = async () => {
    const watcher = watchFiles(directory, wakeUp);
    while (!stopFollowing.signal.aborted) {
      // Ask before reading: the files of a shim that is gone are complete.
      const isGone = isShimGone();
      const result = tryRead(() => readFiles(isGone));
      if (result === 'output') await pause(clock, spool.isCrowded() ? crowded_pause_ms : 1);
      else if (isGone && isEndReported && (result === 'no_output' || isGivingUp)) break;
      else {
        await wakeUp.rest(poll_ms);
        await pause(clock, burst_ms, stopFollowing.signal);
      }
    }
    watcher?.close();
    output.close();
    if (!stopFollowing.signal.aborted) rmSync(directory, { recursive: true, force: true });
  };
  // Starts later, so that the caller has the run before its first event.
  const done = Promise.resolve().then(follow);

  const waitUntil = (condition: () => boolean, ms: number) =>
    new Promise<void>((resolve) => {
      const finish = () => {
        cancel();
        listeners.delete(check);
        resolve();
      };
      const check = () => condition() && finish();
      const cancel = clock.after(ms, finish);
      listeners.add(check);
      check();
    });
  const signalShim = (signal: NodeJS.Signals) => {
    if (shim && !isShimGone()) signalGroup(shim.pid, signal);
  };

  return {
    done,
    pid: () => started?.pid ?? null,
    shim,
    isGroupKnown: () => wasShimSeen,
    async stop(grace_ms) {
      await waitUntil(() => started !== null || end !== null, max_launch_ms);
      if (started === null) signalShim('SIGKILL');
      if (started === null || !wasShimSeen) return true;
      return endGroup(started.pid, grace_ms, clock);
    },
    async waitForOutputEnd() {
      const cancel = clock.after(max_output_wait_ms, () => {
        isGivingUp = true;
        signalShim('SIGKILL');
        wakeUp.wake();
      });
      await done;
      cancel();
    },
    async leave() {
      stopFollowing.abort();
      wakeUp.wake();
      await done;
    },
    kill() {
      if (started === null) signalShim('SIGKILL');
      else if (end === null) signalGroup(started.pid, 'SIGKILL');
    },
  };
}

/** Returns null if the files cannot be watched; then they are only polled. */
function watchFiles(directory: string, { wake }: Waker): FSWatcher | null {
  try {
    const watchers = [directory, outputDirectory(directory)].map((path) => watch(path, wake));
    const [watcher, other] = watchers;
    if (!watcher || !other) return null;
    watcher.once('close', () => other.close());
    for (const each of watchers) each.on('error', () => watcher.close());
    return watcher;
  } catch {
    return null;
  }
}
