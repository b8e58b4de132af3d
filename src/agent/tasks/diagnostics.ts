/** What the machine alone knows: its last lines, how it started, what runs. Pulled before anything is destroyed. */
import { hostname, loadavg, uptime } from 'node:os';
import { now } from '../../base/clock.ts';
import { commandLine } from '../process/process-table.ts';
import { succeeded, type TaskType } from './task.ts';

const most_lines = 200;
const most_processes = 200;
/** Keeps the whole answer well below what the server takes. */
const most_text = 1000;

export const collectDiagnostics: TaskType = async ({ machine }) =>
  succeeded({
    at: now(machine.clock).toISOString(),
    host: { name: hostname(), uptime_seconds: Math.round(uptime()), load_average: loadavg() },
    lines: machine.lastLines(most_lines).map((line) => ({ ...line, line: line.line.slice(0, most_text) })),
    boot_stages: machine.bootStages(),
    processes: machine
      .processes()
      .slice(0, most_processes)
      .map(({ pid, ppid, group, state, rss_bytes }) => {
        return {
          pid,
          ppid,
          group,
          state,
          rss_bytes,
          command: machine.hideScripts(commandLine(pid)).slice(0, most_text),
        };
      }),
  });
