/** The task types that this agent runs. It refuses any other, even if the signature is valid. */

import { hostname, loadavg, uptime } from 'node:os';
import { now } from '../../base/clock.ts';
import { readCommandLine } from '../process/process-table.ts';
import { numberOf } from '../state/shape.ts';
import { releaseClean } from './release-clean.ts';
import { failed, succeeded, type TaskType } from './task.ts';

const max_lines = 200;
const max_processes = 200;
/** Keeps the result well below the server's size limit. */
const max_text_length = 1000;

/**
 * Collects what only the machine has: its last log lines, boot stages and processes. Runs on
 * request, and before a release destroys them.
 */
const collectDiagnostics: TaskType = async ({ machine }) =>
  succeeded({
    at: now(machine.clock).toISOString(),
    host: { name: hostname(), uptime_seconds: Math.round(uptime()), load_average: loadavg() },
    lines: machine.lastLines(max_lines).map((line) => ({ ...line, line: line.line.slice(0, max_text_length) })),
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
          command: machine.hideScripts(readCommandLine(pid)).slice(0, max_text_length),
        };
      }),
  });

/** Stops the workload with SIGTERM and then SIGKILL. Fails if one of its processes survives. */
const releaseStop: TaskType = async ({ task, machine }) => {
  const grace_seconds = numberOf(task.params.grace_seconds);
  const remaining = await machine.stopCommand(grace_seconds === null ? null : grace_seconds * 1000);
  if (remaining.length === 0) return succeeded({ stopped: true });
  return failed('stop_failed', `still running after SIGKILL: ${remaining.map(({ pid }) => pid).join(', ')}`);
};

/**
 * Changes nothing. Its result proves that the agent receives tasks and that its results arrive, and
 * names the last release, which a restored server may not have on record.
 */
const ping: TaskType = async ({ machine }) =>
  succeeded({ pong: true, at: now(machine.clock).toISOString(), last_release: machine.lastRelease() });

export const taskCatalogue: Readonly<Record<string, TaskType>> = {
  ping,
  'release.stop': releaseStop,
  'release.clean': releaseClean,
  'release.freeze': collectDiagnostics,
  'diagnostics.collect': collectDiagnostics,
};

/** Uses `hasOwn`, so that `constructor` does not count as a task type. */
export const taskTypeOf = (type: string): TaskType | null =>
  Object.hasOwn(taskCatalogue, type) ? (taskCatalogue[type] ?? null) : null;
