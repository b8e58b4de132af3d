/** Finds the processes of one instance and its agent among the host's, and signals them. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { sharedScan } from '../../../base/batching/shared-scan.ts';
import type { Clock } from '../../../base/clock.ts';
import type { DriverTarget } from '../../driver.ts';
import { directoryOf, files } from '../files/node-directory.ts';
import { errorCode } from '../host-failure.ts';
import { type ProcessReader, type ProcessRow, procfsReader } from './procfs.ts';
import { psReader } from './ps-reader.ts';

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
