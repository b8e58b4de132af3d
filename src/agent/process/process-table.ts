/** The processes of this machine according to /proc; empty on systems without it. */
import { readdirSync, readFileSync } from 'node:fs';
import { errorCode } from '../state/shape.ts';

export interface ProcessRow {
  pid: number;
  ppid: number;
  group: number;
  /** The kernel's state letter; Z is a zombie. */
  state: string;
  /** Together with the pid, identifies the process even if the pid is reused. */
  start: string;
  rss_bytes: number;
}

const page_bytes = 4096;
/** A process may end, or belong to another user, between listing and reading. */
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
  // The name is in parentheses and may contain parentheses and spaces.
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
 * Processes of the instance other than this agent and its ancestors: those with the tag in their
 * environment, and all descendants of these or of the agent.
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
