/**
 * Supervises the pool's command in its own process group: logs its output and restarts it when it
 * ends. Reports events; the caller decides what they mean for the node.
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
  /** A process runs; its pid is also its group id. */
  launched(pid: number): void;
  /** The command accepts work. */
  ready(): void;
  ended(how: string): void;
  /** The command ends again and again. */
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
   * Ends the command with its group and keeps it down. Returns whether nothing of the group is
   * left.
   */
  stop(grace_ms: number): Promise<boolean>;
  /**
   * Resolves when all its output is read. A process that still holds the pipe open by then is no
   * longer read.
   */
  outputEnds(): Promise<void>;
  /** For the end of the agent's process; synchronous. */
  kill(): void;
}

/** A command that knows when it accepts work prints this line, if the environment asks for it. */
const readyLine = 'SLIPWAY_READY';
const announcesReady = (env: NodeJS.ProcessEnv) => env.SLIPWAY_READY_LINE === '1';

/** A pipe holds little, but is read slowly while the spool is crowded. */
const output_ends_within_ms = 5_000;

export function superviseCommand(parts: CommandParts): Command {
  const { argv, clock, log, timing, events } = parts;
  const pauses = backoff(timing.command_restart);
  let wanted = false;
  let child: ChildProcess | null = null;
  let timers: CancelTimer[] = [];
  let exits: number[] = [];
  let looping = false;
  /** Resolves when the leftovers of the last process are gone. */
  let groupEnded: Promise<boolean> = Promise.resolve(true);
  const outputs = new Set<Readable>();

  const clearTimers = () => {
    for (const cancel of timers) cancel();
    timers = [];
  };
  const later = (ms: number, run: () => void) => timers.push(clock.after(ms, run));

  const becameReady = () => {
    if (!looping) events.ready();
  };
  const provedStable = () => {
    exits = [];
    pauses.reset();
    if (looping) events.ready();
    looping = false;
  };

  const launch = () => {
    const [program = '', ...args] = argv;
    const env = parts.env();
    const started = spawn(program, args, { cwd: parts.cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    child = started;
    const onLine = (line: string) => {
      if (line.trim() === readyLine && announcesReady(env) && child === started) becameReady();
    };
    logOutput(started.stdout, 'stdout', { ...parts, onLine });
    logOutput(started.stderr, 'stderr', parts);
    for (const output of [started.stdout, started.stderr]) {
      outputs.add(output);
      output.once('close', () => outputs.delete(output));
    }
    started.once('error', (error) => ended(started, `could not be started: ${error.message}`));
    started.once('exit', (code, signal) => {
      ended(started, code === null ? `was ended by ${signal}` : `exited with code ${code}`);
    });
    if (started.pid === undefined) return;
    events.launched(started.pid);
    log.info('command started', { pid: started.pid, command: argv });
    if (!announcesReady(env)) later(timing.ready_after_ms, becameReady);
    later(timing.crash_loop.window_ms, provedStable);
  };

  const ended = async (which: ChildProcess, how: string) => {
    if (child !== which) return;
    child = null;
    clearTimers();
    if (!wanted) return;
    const { exits: most, window_ms } = timing.crash_loop;
    exits = [...exits.filter((at) => clock.monotonicMs() - at < window_ms), clock.monotonicMs()];
    looping ||= exits.length >= most;
    const wait_ms = pauses.nextMs();
    log.warn('command ended; it will be started again', { how, restart_in_ms: Math.round(wait_ms) });
    events.ended(how);
    if (looping)
      events.crashLooping(`the command ended ${exits.length} times within ${window_ms / 1000} s; last it ${how}`);
    // Leftover processes would hold ports and files that the next one needs.
    if (which.pid) groupEnded = endGroup(which.pid, timing.stop_grace_ms, clock);
    await groupEnded;
    if (wanted && !child) later(wait_ms, launch);
  };

  return {
    start() {
      if (wanted) return;
      wanted = true;
      launch();
    },
    async stop(grace_ms) {
      wanted = false;
      clearTimers();
      exits = [];
      looping = false;
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
