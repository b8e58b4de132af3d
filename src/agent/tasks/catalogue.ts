/**
 * Every type of task that this agent runs. Any other is refused, even if its signature is valid.
 */

import { hostname, loadavg, uptime } from 'node:os';
import { now } from '../../base/clock.ts';
import { commandLine } from '../process/process-table.ts';
import { numberOf } from '../state/shape.ts';
import { releaseClean } from './release-clean.ts';
import { failed, succeeded, type TaskType } from './task.ts';

const max_lines = 200;
const max_processes = 200;
/** Keeps the answer well below the server's limit. */
const max_text = 1000;

/**
 * Collects what only the machine knows: its last log lines, boot stages and processes. Runs before
 * anything is destroyed.
 */
const collectDiagnostics: TaskType = async ({ machine }) =>
  succeeded({
    at: now(machine.clock).toISOString(),
    host: { name: hostname(), uptime_seconds: Math.round(uptime()), load_average: loadavg() },
    lines: machine.lastLines(max_lines).map((line) => ({ ...line, line: line.line.slice(0, max_text) })),
    boot_stages: machine.bootStages(),
    processes: machine
      .processes()
      .slice(0, max_processes)
      .map(({ pid, ppid, group, state, rss_bytes }) => {
        return {
          pid,
          ppid,
          group,
          state,
          rss_bytes,
          command: machine.hideScripts(commandLine(pid)).slice(0, max_text),
        };
      }),
  });

/** Stops the workload: SIGTERM, grace period, SIGKILL. Succeeds only if nothing of it is left. */
const releaseStop: TaskType = async ({ task, machine }) => {
  const grace_seconds = numberOf(task.params.grace_seconds);
  const left = await machine.stopCommand(grace_seconds === null ? null : grace_seconds * 1000);
  if (left.length === 0) return succeeded({ stopped: true });
  return failed('stop_failed', `still running after SIGKILL: ${left.map(({ pid }) => pid).join(', ')}`);
};

/** Proves that tasks are claimed and results arrive; does nothing else. */
const ping: TaskType = async ({ machine }) => succeeded({ pong: true, at: now(machine.clock).toISOString() });

export const taskCatalogue: Readonly<Record<string, TaskType>> = {
  ping,
  'release.stop': releaseStop,
  'release.clean': releaseClean,
  'release.freeze': collectDiagnostics,
  'diagnostics.collect': collectDiagnostics,
};

/** Own entries only: `constructor` is not a type of task. */
export const taskTypeOf = (type: string): TaskType | null =>
  Object.hasOwn(taskCatalogue, type) ? (taskCatalogue[type] ?? null) : null;
