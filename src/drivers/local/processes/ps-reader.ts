/**
 * The process table without /proc (macOS). `ps` shows no environment there, so an agent is
 * identified by the pid and start time in its launch record, and its processes by descent and
 * process group. Weaker than /proc: it misses an agent whose launch crashed before the record, and
 * orphaned daemons.
 */
import { execFile, execFileSync } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { readLaunch } from '../files/launch-record.ts';
import { files, readMarker } from '../files/node-directory.ts';
import type { ProcessReader, ProcessRow } from './procfs.ts';

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
