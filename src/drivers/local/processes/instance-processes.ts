/** Finds the processes of one instance and its agent among the host's, and signals them. */

import { execFile, execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { sharedScan } from '../../../base/batching/shared-scan.ts';
import type { Clock } from '../../../base/clock.ts';
import type { DriverTarget } from '../../driver.ts';
import { readLaunch } from '../files/launch-record.ts';
import { directoryOf, files, readMarker } from '../files/node-directory.ts';
import { errorCode } from '../host-failure.ts';
import { type ProcessReader, type ProcessRow, procfsReader } from './procfs.ts';

const run = promisify(execFile);
const columns = 'pid=,ppid=,pgid=,stat=,tty=,lstart=,args=';
const shape = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(\w{3}\s+\w{3}\s+\d+\s+[\d:]+\s+\d{4})\s+(.*)$/;
const options = { env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' }, maxBuffer: 64 * 1024 * 1024 };

function rowFrom(line: string): ProcessRow | null {
  const [, pid, ppid, group, state, terminal, start, args] = shape.exec(line) ?? [];
  if (!pid || !start || state?.startsWith('Z')) return null;
  return {
    pid: Number(pid),
    ppid: Number(ppid),
    session: Number(group),
    start: start.replaceAll(/\s+/g, ' '),
    terminal: !terminal?.startsWith('?'),
    cwd: null,
    tags: null,
    argv: [args ?? ''],
  };
}

/**
 * The process table without /proc (macOS). `ps` shows no environment there, so an agent is
 * identified by the pid and start time in its launch record, and its processes by descent and
 * process group. Weaker than /proc: it misses an agent whose launch crashed before the record, and
 * orphaned daemons.
 */
export function psReader(nodes_dir: string): ProcessReader {
  return {
    startOf(pid) {
      const line = execFileSync('ps', ['-A', '-o', columns], options)
        .toString()
        .split('\n')
        .map(rowFrom)
        .find((row) => row?.pid === pid);
      return line?.start ?? null;
    },
    async read() {
      const { stdout } = await run('ps', ['-A', '-o', columns], options);
      const rows = stdout.split('\n').flatMap((line) => rowFrom(line) ?? []);
      const byPid = new Map(rows.map((row) => [row.pid, row]));
      for (const name of await readdir(nodes_dir)) {
        const directory = join(nodes_dir, name);
        const { pid, start } = await readLaunch(directory);
        const row = pid === null ? undefined : byPid.get(pid);
        const marker = await readMarker(directory);
        if (!row || !marker || row.start !== start) continue;
        row.tags = marker;
        row.argv.push('--config', join(directory, files.agent_config));
      }
      return rows;
    },
  };
}

export interface InstanceProcesses {
  agent: ProcessRow | null;
  /** All processes of the instance, including the agent. */
  all: ProcessRow[];
  /** How many processes of the host were examined. */
  looked_at: number;
}

export interface ProcessTable {
  rows(): Promise<ProcessRow[]>;
  of(target: DriverTarget): Promise<InstanceProcesses>;
  startOf(pid: number): string | null;
  signal(processes: ProcessRow[], signal: NodeJS.Signals): void;
}

/**
 * A process belongs to the instance if it carries the tags, or works in the instance's directory
 * without a terminal (some daemons overwrite their environment; a person's shell has a terminal and
 * is spared), or descends from one of these, or shares its session. A process that sheds all of
 * these cannot be found; only a container could hold it.
 */
function belonging(rows: ProcessRow[], target: DriverTarget, directory: string): ProcessRow[] {
  const marked = (row: ProcessRow) =>
    (row.tags?.node_instance_id === target.node_instance_id && row.tags.installation_id === target.installation_id) ||
    (!row.terminal && row.cwd !== null && worksIn(row.cwd, directory));
  const found = new Map(rows.filter(marked).map((row) => [row.pid, row]));
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const row of rows) if (found.has(row.ppid) || found.has(row.session)) found.set(row.pid, row);
  }
  return [...found.values()];
}

/** The kernel appends ` (deleted)` to the working directory if it was removed. */
function worksIn(cwd: string, directory: string): boolean {
  return cwd === directory || cwd.startsWith(`${directory}/`) || cwd === `${directory} (deleted)`;
}

/**
 * The agent leads its own session and was started with this instance's configuration; no record of
 * its pid is needed.
 */
function isAgent(row: ProcessRow, directory: string): boolean {
  return (
    row.pid === row.session && row.argv.at(-2) === '--config' && row.argv.at(-1) === join(directory, files.agent_config)
  );
}

export const readerOf = (clock: Clock, nodes_dir: string): ProcessReader =>
  existsSync('/proc/self/stat') ? procfsReader(clock) : psReader(nodes_dir);

export function processTable(clock: Clock, nodes_dir: string, reader: ProcessReader): ProcessTable {
  const rows = sharedScan(clock, reader.read);
  return {
    rows,
    startOf: reader.startOf,
    async of(target) {
      const directory = directoryOf(nodes_dir, target.node_instance_id);
      const seen = await rows();
      const all = belonging(seen, target, directory);
      return { agent: all.find((row) => isAgent(row, directory)) ?? null, all, looked_at: seen.length };
    },
    signal(processes, signal) {
      for (const { pid, start } of processes) {
        // The pid may have been reused since it was read.
        if (reader.startOf(pid) !== start) continue;
        try {
          process.kill(pid, signal);
        } catch (error) {
          if (errorCode(error) !== 'ESRCH') throw error;
        }
      }
    },
  };
}
