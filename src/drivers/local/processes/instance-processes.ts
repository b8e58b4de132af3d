/** Finds an instance's processes and its agent among all processes of the host; signals them. */

import { execFile, execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createSharedScan } from '../../../base/batching/shared-scan.ts';
import type { Clock } from '../../../base/clock.ts';
import type { DriverTarget } from '../../driver.ts';
import { readLaunch } from '../files/launch-record.ts';
import { directoryOf, files, listEntries, readMarker } from '../files/node-directory.ts';
import { errorCode } from '../host-failure.ts';
import { type ProcessReader, type ProcessRow, procfsReader } from './procfs.ts';

const run = promisify(execFile);
const columns = 'pid=,ppid=,pgid=,stat=,tty=,lstart=,args=';
const linePattern = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(\w{3}\s+\w{3}\s+\d+\s+[\d:]+\s+\d{4})\s+(.*)$/;
const options = { env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' }, maxBuffer: 64 * 1024 * 1024 };

function rowFrom(line: string): ProcessRow | null {
  const [, pid, ppid, group, state, terminal, start, args] = linePattern.exec(line) ?? [];
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
 * Reads the process table without /proc (macOS). `ps` shows no environment there, so an agent is
 * identified by the pid and start time in its launch record, and its processes by descent and
 * process group. It misses orphaned daemons, and an agent whose launch crashed before the record.
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
      for (const name of await listEntries(nodes_dir)) {
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
  examined: number;
}

export interface ProcessTable {
  readAll(): Promise<ProcessRow[]>;
  find(target: DriverTarget): Promise<InstanceProcesses>;
  startOf(pid: number): string | null;
  signal(processes: ProcessRow[], signal: NodeJS.Signals): void;
}

/**
 * Finds processes that have the tags, or that work in the instance's directory without a terminal,
 * and all their descendants and sessions. The directory identifies daemons that overwrite their
 * environment; a person's shell has a terminal and is not touched. A process that loses all of
 * these marks cannot be found; only a container could hold it.
 */
function findInstanceRows(rows: ProcessRow[], target: DriverTarget, directory: string): ProcessRow[] {
  const isMarked = (row: ProcessRow) =>
    (row.tags?.node_instance_id === target.node_instance_id && row.tags.installation_id === target.installation_id) ||
    (!row.terminal && row.cwd !== null && worksIn(row.cwd, directory));
  const members = new Map(rows.filter(isMarked).map((row) => [row.pid, row]));
  for (let previousSize = -1; previousSize !== members.size; ) {
    previousSize = members.size;
    for (const row of rows) if (members.has(row.ppid) || members.has(row.session)) members.set(row.pid, row);
  }
  return [...members.values()];
}

/** The kernel appends ` (deleted)` to the working directory if it was removed. */
function worksIn(cwd: string, directory: string): boolean {
  return cwd === directory || cwd.startsWith(`${directory}/`) || cwd === `${directory} (deleted)`;
}

/**
 * The agent leads its own session and was started with this instance's configuration, so it is
 * found without a record of its pid.
 */
function isAgent(row: ProcessRow, directory: string): boolean {
  return (
    row.pid === row.session && row.argv.at(-2) === '--config' && row.argv.at(-1) === join(directory, files.agent_config)
  );
}

export const createReader = (clock: Clock, nodes_dir: string): ProcessReader =>
  existsSync('/proc/self/stat') ? procfsReader(clock) : psReader(nodes_dir);

export function processTable(clock: Clock, nodes_dir: string, reader: ProcessReader): ProcessTable {
  const readAll = createSharedScan(clock, reader.read);
  return {
    readAll,
    startOf: reader.startOf,
    async find(target) {
      const directory = directoryOf(nodes_dir, target.node_instance_id);
      const hostRows = await readAll();
      const all = findInstanceRows(hostRows, target, directory);
      return { agent: all.find((row) => isAgent(row, directory)) ?? null, all, examined: hostRows.length };
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
