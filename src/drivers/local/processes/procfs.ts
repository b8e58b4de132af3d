/** Reads the host's processes, with their parents and our tags, from /proc. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { type Clock, pause } from '../../../base/clock.ts';
import { errorCode } from '../host-failure.ts';

export interface ProcessTags {
  installation_id: string;
  node_id: string | null;
  node_instance_id: string;
}

export interface ProcessRow {
  pid: number;
  ppid: number;
  session: number;
  /**
   * Identifies one process together with the pid: a reused pid has another start time.
   */
  start: string;
  /** The process has a controlling terminal, so a person uses it. */
  terminal: boolean;
  cwd: string | null;
  tags: ProcessTags | null;
  argv: string[];
}

export interface ProcessReader {
  read(): Promise<ProcessRow[]>;
  startOf(pid: number): string | null;
}

export const tagNames = {
  installation_id: 'SLIPWAY_INSTALLATION_ID',
  node_id: 'SLIPWAY_NODE_ID',
  node_instance_id: 'SLIPWAY_NODE_INSTANCE_ID',
} as const;

/** Errors from reading a process that just ended or belongs to another user. */
const unreadable = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM']);

function nullIfUnreadable<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (unreadable.has(errorCode(error) ?? '')) return null;
    throw error;
  }
}

const readText = (pid: number, file: string) => nullIfUnreadable(() => readFileSync(`/proc/${pid}/${file}`, 'utf8'));

/** The parent of all kernel threads. */
const kernelThreadParent = 2;
const endedStates = new Set(['Z', 'X', 'x']);

interface Stat {
  ppid: number;
  session: number;
  terminal: boolean;
  start: string;
  name: string;
  /** The process has an empty environment, not one that an exec is still setting up. */
  empty_environment: boolean;
}

/** Parses `/proc/<pid>/stat`; null for a process that has ended. */
export function statFrom(text: string): Stat | null {
  // The name is in parentheses and may contain spaces and parentheses, so count fields from the
  // last one.
  const close = text.lastIndexOf(')');
  const [state = '', ppid, , session, terminal, ...rest] = text.slice(close + 2).split(' ');
  if (endedStates.has(state)) return null;
  const [start_code, environment_start, environment_end] = [rest[18], rest[42], rest[43]];
  return {
    ppid: Number(ppid),
    session: Number(session),
    terminal: terminal !== '0',
    start: rest[14] ?? '',
    name: text.slice(text.indexOf('(') + 1, close),
    // An exec sets the start of the environment first, then its end, and the code address last.
    // Until the code address is set, equal bounds do not mean that the environment is empty.
    empty_environment: start_code !== '0' && environment_start !== '0' && environment_start === environment_end,
  };
}

function readStat(pid: number): Stat | null {
  const text = readText(pid, 'stat');
  return text ? statFrom(text) : null;
}

function tagsFrom(environ: string): ProcessTags | null {
  if (!environ.includes(`${tagNames.node_instance_id}=`)) return null;
  const values = new Map<string, string>();
  for (const entry of environ.split('\0')) {
    const equals = entry.indexOf('=');
    if (equals > 0 && entry.startsWith('SLIPWAY_')) values.set(entry.slice(0, equals), entry.slice(equals + 1));
  }
  const node_instance_id = values.get(tagNames.node_instance_id);
  const installation_id = values.get(tagNames.installation_id);
  if (!node_instance_id || !installation_id) return null;
  return { installation_id, node_id: values.get(tagNames.node_id) ?? null, node_instance_id };
}

/**
 * `unsettled` is true while an exec or an exit is under way. The process then has neither
 * environment nor arguments, so it looks like a foreign process.
 */
function readRow(pid: number): { row: ProcessRow; unsettled: boolean } | null {
  const stat = readStat(pid);
  if (!stat || stat.ppid === kernelThreadParent || pid === kernelThreadParent) return null;
  const environ = readText(pid, 'environ');
  const tags = tagsFrom(environ ?? '');
  const cmdline = tags ? (readText(pid, 'cmdline') ?? '') : '';
  const row = {
    pid,
    ppid: stat.ppid,
    session: stat.session,
    start: stat.start,
    terminal: stat.terminal,
    cwd: nullIfUnreadable(() => readlinkSync(`/proc/${pid}/cwd`)),
    tags,
    argv: cmdline ? cmdline.split('\0').slice(0, -1) : [stat.name],
  };
  const unsettled = tags ? cmdline === '' : environ === '' && readStat(pid)?.empty_environment !== true;
  return { row, unsettled };
}

/**
 * Synchronous reads of /proc cost a tenth of asynchronous ones. The reader pauses after this many,
 * so that it does not block the event loop for long.
 */
const slice_size = 64;
const settle_rounds = 100;
const settle_pause_ms = 10;

export function procfsReader(clock: Clock): ProcessReader {
  /**
   * Start times, by pid, of processes that cleared their environment and arguments for good. The
   * reader waits for such a process only once.
   */
  const blankProcesses = new Map<number, string>();

  async function readSettledRow(pid: number): Promise<ProcessRow | null> {
    for (let round = 0; ; round++) {
      const read = readRow(pid);
      if (!read?.unsettled || blankProcesses.get(pid) === read.row.start) return read?.row ?? null;
      if (round === settle_rounds) blankProcesses.set(pid, read.row.start);
      else await pause(clock, settle_pause_ms);
    }
  }

  return {
    async read() {
      const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
      const rows: (ProcessRow | null)[] = [];
      for (const [index, pid] of pids.entries()) {
        if (index % slice_size === slice_size - 1) await pause(clock, 0);
        rows.push(await readSettledRow(Number(pid)));
      }
      return rows.filter((row) => row !== null);
    },
    startOf: (pid) => readStat(pid)?.start ?? null,
  };
}
