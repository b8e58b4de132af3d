/**
 * Supervises the pool's command in its own process group: logs its output and restarts it when it
 * ends. The caller gets events and decides what they mean for the node. The command is the child of
 * a shim, so it survives the agent, and the next agent adopts it.
 */
import { createBackoff } from '../../base/backoff.ts';
import type { CancelTimer } from '../../base/clock.ts';
import type { AgentConfig } from '../state/config.ts';
import { errorText } from '../state/shape.ts';
import type { Timing } from '../timing.ts';
import type { CommandRecord, CommandRecords } from './command-record.ts';
import { endGroup, endProcesses } from './process-group.ts';
import { type ProcessId, type ProcessRow, readBootId } from './process-table.ts';
import { adoptRun, type CommandRun, launchRun, type RunEvents, type RunParts } from './shim/command-run.ts';
import { type CommandEnd, describeEnd } from './shim/run-files.ts';

export interface CommandEvents {
  /** The command accepts work. */
  ready(): void;
  /** The command ended, and the agent did not end it. */
  ended(ending: string, end: CommandEnd): void;
  /** The command ended too often within the crash loop window. */
  crashLooping(message: string): void;
}

export interface CommandParts extends RunParts {
  config: Pick<AgentConfig, 'work_dir' | 'secret_env'>;
  argv: string[];
  /** Called at each start. */
  env(): NodeJS.ProcessEnv;
  records: CommandRecords;
  /** See `CommandRecord`. */
  owner: string;
  command_digest: string;
  node_instance_id(): string | null;
  timing: Timing;
  /** Lists the processes of a run without a shim: the recorded group, if tagged as ours. */
  leftovers(): ProcessRow[];
  events: CommandEvents;
}

export interface Command {
  start(): void;
  /**
   * Continues to supervise the run in the record. If it has ended meanwhile, reports how, and
   * `start` starts the command again.
   */
  adopt(record: CommandRecord): void;
  /**
   * Ends the command with its process group and does not restart it. Returns whether the whole
   * group has ended.
   */
  stop(grace_ms: number): Promise<boolean>;
  /** Stops the supervision and lets the command run. */
  leave(): Promise<void>;
  /**
   * Resolves when all output has been read. Ends the shim after a time limit, because a process
   * that left the group may hold the output open.
   */
  waitForOutputEnd(): Promise<void>;
  isRunning(): boolean;
  /** The pids of the shims. */
  shimPids(): number[];
  /** Kills the group. Synchronous, so that an exiting agent can call it. */
  kill(): void;
}

/** With SLIPWAY_READY_LINE=1 the command prints this line when it accepts work. */
const readyLine = 'SLIPWAY_READY';
const announcesReady = (env: NodeJS.ProcessEnv) => env.SLIPWAY_READY_LINE === '1';

export function superviseCommand(parts: CommandParts): Command {
  const { argv, clock, log, timing, events, records, config } = parts;
  const pauses = createBackoff(timing.command_restart);
  let shouldRun = false;
  /** The agent ended the command itself, so its end is not reported. */
  let isStopped = false;
  let isLaunchDue = false;
  let current: CommandRun | null = null;
  /** Runs whose output is still read. */
  const runs = new Set<CommandRun>();
  let timers: CancelTimer[] = [];
  let exitTimes: number[] = [];
  let isLooping = false;
  /** Resolves when the process group of the last run has ended. */
  let groupEnded: Promise<boolean> = Promise.resolve(true);

  const clearTimers = () => {
    for (const cancel of timers) cancel();
    timers = [];
  };
  const schedule = (ms: number, callback: () => void) => timers.push(clock.after(ms, callback));

  const markStable = () => {
    exitTimes = [];
    pauses.reset();
    if (isLooping) events.ready();
    isLooping = false;
  };

  /** `open` returns a run that reports no event before this function returns. */
  const supervise = (name: string, isReadyByTime: boolean, open: (runEvents: RunEvents) => CommandRun) => {
    const markReady = () => {
      if (current !== run) return;
      records.update(name, { is_ready: true });
      if (!isLooping) events.ready();
    };
    const run = open({
      launched(pid, isShimGone) {
        const wasReady = records.read()?.is_ready === true;
        // Also for a command without a shim, because `leftovers` needs it.
        records.update(name, { group: pid });
        if (isShimGone) return;
        if (wasReady) markReady();
        else if (isReadyByTime) schedule(timing.ready_after_ms, markReady);
        schedule(timing.crash_loop.window_ms, markStable);
      },
      line(line) {
        if (!isReadyByTime && line.trim() === readyLine) markReady();
      },
      ended: (end) => handleEnd(run, end),
    });
    current = run;
    runs.add(run);
    run.done.then(() => runs.delete(run));
  };

  const launch = () => {
    const env = removeUndefined(parts.env());
    const name = records.createRunName();
    const spec = { argv, cwd: config.work_dir, env, secret_env: config.secret_env };
    const { owner, command_digest } = parts;
    const onShim = (shim: ProcessId) =>
      records.write({
        ...{ run: name, group: null, shim, boot_id: readBootId(), owner, command_digest },
        ...{ node_instance_id: parts.node_instance_id(), is_ready: false, is_over: false },
      });
    supervise(name, !announcesReady(env), (runEvents) =>
      launchRun(parts, records.directoryOf(name), spec, onShim, {
        ...runEvents,
        launched(pid, isShimGone) {
          log.info('command started', { pid, command: argv });
          runEvents.launched(pid, isShimGone);
        },
      }),
    );
  };

  const scheduleLaunch = async (ms: number) => {
    if (isLaunchDue) return;
    isLaunchDue = true;
    await groupEnded;
    schedule(ms, () => {
      isLaunchDue = false;
      if (!shouldRun || current) return;
      try {
        launch();
      } catch (error) {
        // For example, the disk is full.
        log.warn('the command could not be started; trying again', { detail: errorText(error) });
        scheduleLaunch(pauses.nextMs());
      }
    });
  };

  /** Remaining processes of the group could hold ports and files that the next run needs. */
  const endRemaining = (run: CommandRun): Promise<boolean> => {
    const group = run.pid();
    if (group === null) return Promise.resolve(true);
    if (run.isGroupKnown()) return endGroup(group, timing.stop_grace_ms, clock);
    return endProcesses(parts.leftovers(), timing.stop_grace_ms, clock);
  };

  const stopRun = async (run: CommandRun, grace_ms: number): Promise<boolean> => {
    const hasEnded = await run.stop(grace_ms);
    return run.isGroupKnown() ? hasEnded : endProcesses(parts.leftovers(), grace_ms, clock);
  };

  const handleEnd = (run: CommandRun, end: CommandEnd) => {
    if (current !== run) return;
    current = null;
    clearTimers();
    if (isStopped) return;
    const ending = describeEnd(end);
    const { exits: max_exits, window_ms } = timing.crash_loop;
    exitTimes = [...exitTimes.filter((at) => clock.monotonicMs() - at < window_ms), clock.monotonicMs()];
    isLooping ||= exitTimes.length >= max_exits;
    const wait_ms = pauses.nextMs();
    // Scheduled before the rest, so that a failure below cannot prevent the restart.
    groupEnded = endRemaining(run);
    if (shouldRun) scheduleLaunch(wait_ms);
    log.warn('command ended and will be restarted', { how: ending, restart_in_ms: Math.round(wait_ms) });
    events.ended(ending, end);
    records.markOver();
    if (isLooping)
      events.crashLooping(
        `the command ended ${exitTimes.length} times within ${window_ms / 1000} s; the last time it ${ending}`,
      );
  };

  return {
    start() {
      if (shouldRun) return;
      shouldRun = true;
      isStopped = false;
      if (!current) scheduleLaunch(0);
    },
    adopt({ run: name, shim, boot_id }) {
      log.info('adopting the command that an earlier agent started', { shim: shim.pid });
      const runningShim = boot_id === readBootId() ? shim : null;
      supervise(name, !announcesReady(parts.env()), (runEvents) =>
        adoptRun(parts, records.directoryOf(name), runningShim, runEvents),
      );
    },
    async stop(grace_ms) {
      shouldRun = false;
      isStopped = true;
      isLaunchDue = false;
      clearTimers();
      exitTimes = [];
      isLooping = false;
      const hasEnded = await (current ? stopRun(current, grace_ms) : groupEnded);
      if (hasEnded) records.markOver();
      return hasEnded;
    },
    async leave() {
      shouldRun = false;
      clearTimers();
      await Promise.all([...runs].map((run) => run.leave()));
    },
    async waitForOutputEnd() {
      await Promise.all([...runs].map((run) => run.waitForOutputEnd()));
    },
    isRunning: () => current !== null,
    shimPids: () => [...runs].flatMap(({ shim }) => shim?.pid ?? []),
    kill() {
      current?.kill();
    },
  };
}

const removeUndefined = (env: NodeJS.ProcessEnv): Record<string, string> =>
  Object.fromEntries(Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
