/**
 * Collects what only the machine knows: its last log lines, boot stages and processes. Runs before
 * anything is destroyed.
 */
import { hostname, loadavg, uptime } from 'node:os';
import { now } from '../../base/clock.ts';
import { commandLine } from '../process/process-table.ts';
import { succeeded, type TaskType } from './task.ts';

const max_lines = 200;
const max_processes = 200;
/** Keeps the answer well below the server's limit. */
const max_text = 1000;

export const collectDiagnostics: TaskType = async ({ machine }) =>
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
