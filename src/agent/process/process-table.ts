/** The processes of this machine as /proc shows them; on a system without /proc, none. */
import { readdirSync, readFileSync } from 'node:fs';
import { errorCode } from '../state/shape.ts';

export interface ProcessRow {
  pid: number;
  ppid: number;
  group: number;
  /** As the kernel says it; Z is dead and only waits to be reaped. */
  state: string;
  /** With the pid, a name for this process that no later one gets. */
  start: string;
  rss_bytes: number;
}

const page_bytes = 4096;
/** A process may go, or belong to somebody else, between being listed and being looked at. */
const unreadable = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM']);

function read(path: string): string | null {
  try {
    return readFileSync(path, 'latin1');
  } catch (error) {
    if (unreadable.has(errorCode(error) ?? '')) return null;
    throw error;
  }
}

export function processRow(pid: number): ProcessRow | null {
  const stat = read(`/proc/${pid}/stat`);
  if (!stat) return null;
  // The name stands in brackets and may itself hold brackets and spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state = '', ppid = '0', group = '0'] = fields;
  return {
    pid,
    ppid: Number(ppid),
    group: Number(group),
    state,
    start: fields[19] ?? '',
    rss_bytes: Number(fields[21] ?? 0) * page_bytes,
  };
}

export function processRows(): ProcessRow[] {
  if (process.platform !== 'linux') return [];
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  return pids.flatMap((pid) => processRow(pid) ?? []).filter(({ state }) => state !== 'Z');
}

export function commandLine(pid: number): string {
  return (read(`/proc/${pid}/cmdline`) ?? '').replaceAll('\0', ' ').trim();
}

export const instanceTag = 'SLIPWAY_NODE_INSTANCE_ID';

/**
 * What belongs to the instance besides this agent and those who started it: everything that carries the tag in its
 * environment, and everything that was started by such a process or by us.
 */
export function instanceProcesses(node_instance_id: string): ProcessRow[] {
  const rows = processRows();
  const byPid = new Map(rows.map((row) => [row.pid, row]));
  const spared = new Set<number>();
  for (let pid: number | undefined = process.pid; pid && !spared.has(pid); pid = byPid.get(pid)?.ppid) spared.add(pid);
  const tag = `${instanceTag}=${node_instance_id}`;
  const tagged = ({ pid }: ProcessRow) => (read(`/proc/${pid}/environ`) ?? '').split('\0').includes(tag);
  const found = new Map(rows.filter((row) => !spared.has(row.pid) && tagged(row)).map((row) => [row.pid, row]));
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const row of rows) {
      if (!spared.has(row.pid) && (found.has(row.ppid) || row.ppid === process.pid)) found.set(row.pid, row);
    }
  }
  return [...found.values()];
}
