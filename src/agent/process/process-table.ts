/** Reads the processes of this machine from /proc. Systems other than Linux show none. */
import { readdirSync, readFileSync } from 'node:fs';
import { endianness } from 'node:os';
import { errorCode } from '../state/shape.ts';

export interface ProcessRow {
  pid: number;
  ppid: number;
  group: number;
  /** The state letter of the kernel, such as Z for a zombie. */
  state: string;
  /** The start time. Pid and start time identify a process even if the pid is reused. */
  start: string;
  rss_bytes: number;
}

const defaultPageBytes = 4096;
/** The key of the page size in the auxiliary vector of a process; see getauxval(3). */
const pageSizeKey = 6n;

/**
 * Reads the page size from the auxiliary vector: pairs of 64-bit numbers. Kernels for arm64 also
 * use pages of 16 or 64 KiB.
 */
export function pageBytesIn(auxiliaryVector: Buffer): number {
  const isLittle = endianness() === 'LE';
  const readAt = (place: number) =>
    isLittle ? auxiliaryVector.readBigUInt64LE(place) : auxiliaryVector.readBigUInt64BE(place);
  for (let place = 0; place + 16 <= auxiliaryVector.length; place += 16)
    if (readAt(place) === pageSizeKey) return Number(readAt(place + 8));
  return defaultPageBytes;
}

let knownPageBytes: number | undefined;
const pageBytes = (): number =>
  (knownPageBytes ??= pageBytesIn(Buffer.from(readIfReadable('/proc/self/auxv') ?? '', 'latin1')));

/** A process may have ended since it was listed, or belong to another user. */
const expectedErrors = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM']);

function readIfReadable(path: string): string | null {
  try {
    return readFileSync(path, 'latin1');
  } catch (error) {
    if (expectedErrors.has(errorCode(error) ?? '')) return null;
    throw error;
  }
}

export function readProcess(pid: number): ProcessRow | null {
  const stat = readIfReadable(`/proc/${pid}/stat`);
  if (!stat) return null;
  // The second field is the name in parentheses, which may contain spaces and parentheses itself.
  // After it, index 19 is the start time and index 21 the resident pages; see proc(5).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state = '', ppid = '0', group = '0'] = fields;
  return {
    pid,
    ppid: Number(ppid),
    group: Number(group),
    state,
    start: fields[19] ?? '',
    rss_bytes: Number(fields[21] ?? 0) * pageBytes(),
  };
}

/** Lists all processes except zombies. */
export function listProcesses(): ProcessRow[] {
  if (process.platform !== 'linux') return [];
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  return pids.flatMap((pid) => readProcess(pid) ?? []).filter(({ state }) => state !== 'Z');
}

/** Identifies a process of this boot, because pids are reused. */
export type ProcessId = Pick<ProcessRow, 'pid' | 'start'>;

/** A zombie does not count as running. */
export function isRunning({ pid, start }: ProcessId): boolean {
  const row = readProcess(pid);
  return row !== null && row.start === start && row.state !== 'Z';
}

/** Start times count from the boot, so they identify a process only together with the boot. */
export const readBootId = (): string => readIfReadable('/proc/sys/kernel/random/boot_id')?.trim() ?? '';

export function readCommandLine(pid: number): string {
  return (readIfReadable(`/proc/${pid}/cmdline`) ?? '').replaceAll('\0', ' ').trim();
}

export const instanceTag = 'SLIPWAY_NODE_INSTANCE_ID';

/**
 * Lists the processes of these instances, without this agent and its ancestors: processes with a
 * tag in their environment, their descendants, and the descendants of the agent.
 */
export function listInstanceProcesses(node_instance_ids: readonly string[]): ProcessRow[] {
  const rows = listProcesses();
  const byPid = new Map(rows.map((row) => [row.pid, row]));
  const ancestors = new Set<number>();
  for (let pid: number | undefined = process.pid; pid && !ancestors.has(pid); pid = byPid.get(pid)?.ppid)
    ancestors.add(pid);
  const tags = new Set(node_instance_ids.map((id) => `${instanceTag}=${id}`));
  const isTagged = ({ pid }: ProcessRow) =>
    (readIfReadable(`/proc/${pid}/environ`) ?? '').split('\0').some((entry) => tags.has(entry));
  const members = new Map(rows.filter((row) => !ancestors.has(row.pid) && isTagged(row)).map((row) => [row.pid, row]));
  // Rows are not sorted by descent, so repeat until no new descendant is found.
  for (let previousSize = -1; previousSize !== members.size; ) {
    previousSize = members.size;
    for (const row of rows) {
      if (!ancestors.has(row.pid) && (members.has(row.ppid) || row.ppid === process.pid)) members.set(row.pid, row);
    }
  }
  return [...members.values()];
}
