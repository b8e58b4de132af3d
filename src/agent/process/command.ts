/**
 * Supervises the pool's command in its own process group: logs its output and restarts it when it
 * ends. The caller gets events and decides what they mean for the node.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { backoff } from '../../base/backoff.ts';
import type { CancelTimer, Clock } from '../../base/clock.ts';
import type { Log } from '../log.ts';
import type { Timing } from '../timing.ts';
import { logOutput } from './child-output.ts';
import { endGroup, signalGroup } from './process-group.ts';

export interface CommandEvents {
  /** A process was started. Its pid is also its group id. */
  launched(pid: number): void;
  /** The command accepts work. */
  ready(): void;
  ended(how: string): void;
  /** The command ended too often within the crash loop window. */
  crashLooping(message: string): void;
}

export interface CommandParts {
  argv: string[];
  cwd: string;
  /** Called at each start. */
  env(): NodeJS.ProcessEnv;
  clock: Clock;
  log: Log;
  timing: Timing;
  isCrowded(): boolean;
  events: CommandEvents;
}

export interface Command {
  start(): void;
  /**
   * Ends the command with its process group and does not restart it. Returns whether the whole
   * group has ended.
   */
  stop(grace_ms: number): Promise<boolean>;
  /**
   * Resolves when all output has been read. Closes the pipe after a time limit, because a process
   * that left the group may hold it open.
   */
  outputEnds(): Promise<void>;
  /** Kills the group. Synchronous, so that an exiting agent can call it. */
  kill(): void;
}

/** With SLIPWAY_READY_LINE=1 the command prints this line when it accepts work. */
const readyLine = 'SLIPWAY_READY';
const announcesReady = (env: NodeJS.ProcessEnv) => env.SLIPWAY_READY_LINE === '1';

/** A pipe buffers little output, but the agent reads it slowly while the spool is crowded. */
const output_ends_within_ms = 5_000;

export function superviseCommand(parts: CommandParts): Command {
  const { argv, clock, log, timing, events } = parts;
  const pauses = backoff(timing.command_restart);
  let shouldRun = false;
  let child: ChildProcess | null = null;
  let timers: CancelTimer[] = [];
  let exitTimes: number[] = [];
  let isLooping = false;
  /** Resolves when the process group of the last run has ended. */
  let groupEnded: Promise<boolean> = Promise.resolve(true);
  const outputs = new Set<Readable>();

  const clearTimers = () => {
    for (const cancel of timers) cancel();
    timers = [];
  };
  const schedule = (ms: number, run: () => void) => timers.push(clock.after(ms, run));

  const markReady = () => {
    if (!isLooping) events.ready();
  };
  const markStable = () => {
    exitTimes = [];
    pauses.reset();
    if (isLooping) events.ready();
    isLooping = false;
  };

  const launch = () => {
    const [program = '', ...args] = argv;
    const env = parts.env();
    const started = spawn(program, args, { cwd: parts.cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    child = started;
    const onLine = (line: string) => {
      if (line.trim() === readyLine && announcesReady(env) && child === started) markReady();
    };
    logOutput(started.stdout, 'stdout', { ...parts, onLine });
    logOutput(started.stderr, 'stderr', parts);
    for (const output of [started.stdout, started.stderr]) {
      outputs.add(output);
      output.once('close', () => outputs.delete(output));
    }
    started.once('error', (error) => handleEnd(started, `could not be started: ${error.message}`));
    started.once('exit', (code, signal) => {
      handleEnd(started, code === null ? `was ended by ${signal}` : `exited with code ${code}`);
    });
    if (started.pid === undefined) return;
    events.launched(started.pid);
    log.info('command started', { pid: started.pid, command: argv });
    if (!announcesReady(env)) schedule(timing.ready_after_ms, markReady);
    schedule(timing.crash_loop.window_ms, markStable);
  };

  const handleEnd = async (ended: ChildProcess, how: string) => {
    if (child !== ended) return;
    child = null;
    clearTimers();
    if (!shouldRun) return;
    const { exits: max_exits, window_ms } = timing.crash_loop;
    exitTimes = [...exitTimes.filter((at) => clock.monotonicMs() - at < window_ms), clock.monotonicMs()];
    isLooping ||= exitTimes.length >= max_exits;
    const wait_ms = pauses.nextMs();
    log.warn('command ended and will be restarted', { how, restart_in_ms: Math.round(wait_ms) });
    events.ended(how);
    if (isLooping)
      events.crashLooping(`the command ended ${exitTimes.length} times within ${window_ms / 1000} s; last it ${how}`);
    // Remaining processes of the group could hold ports and files that the next run needs.
    if (ended.pid) groupEnded = endGroup(ended.pid, timing.stop_grace_ms, clock);
    await groupEnded;
    if (shouldRun && !child) schedule(wait_ms, launch);
  };

  return {
    start() {
      if (shouldRun) return;
      shouldRun = true;
      launch();
    },
    async stop(grace_ms) {
      shouldRun = false;
      clearTimers();
      exitTimes = [];
      isLooping = false;
      const pid = child?.pid;
      return pid === undefined ? groupEnded : endGroup(pid, grace_ms, clock);
    },
    async outputEnds() {
      const closed = [...outputs].map((output) => new Promise((resolve) => output.once('close', resolve)));
      const cancel = clock.after(output_ends_within_ms, () => {
        for (const output of outputs) output.destroy();
      });
      await Promise.all(closed);
      cancel();
    },
    kill() {
      if (child?.pid) signalGroup(child.pid, 'SIGKILL');
    },
  };
}
