/** Reads the host's process table from /proc: who runs, whose child it is, and which of our tags it carries. Signals nobody. */
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
  /** With the pid this names one process for ever: pids are used again, start times of one boot are not. */
  start: string;
  /** Has a controlling terminal, so a person sits in front of it. */
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

/** What reading the entry of a process that just ended, or that belongs to somebody else, answers. */
const unreadable = new Set(['ENOENT', 'ESRCH', 'EACCES', 'EPERM']);

function unlessGone<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (unreadable.has(errorCode(error) ?? '')) return null;
    throw error;
  }
}

const textOf = (pid: number, file: string) => unlessGone(() => readFileSync(`/proc/${pid}/${file}`, 'utf8'));

const kernelThreads = 2;
const ended = new Set(['Z', 'X', 'x']);

interface Stat {
  ppid: number;
  session: number;
  terminal: boolean;
  start: string;
  name: string;
  /** It was given none; as opposed to having none at this moment. */
  empty_environment: boolean;
}

/** What `/proc/<pid>/stat` says; nothing of a process that has ended. */
export function statFrom(text: string): Stat | null {
  // The name stands in parentheses and may itself hold spaces and parentheses: fields count from the last one.
  const close = text.lastIndexOf(')');
  const [state = '', ppid, , session, terminal, ...rest] = text.slice(close + 2).split(' ');
  if (ended.has(state)) return null;
  const [start_code, environment_start, environment_end] = [rest[18], rest[42], rest[43]];
  return {
    ppid: Number(ppid),
    session: Number(session),
    terminal: terminal !== '0',
    start: rest[14] ?? '',
    name: text.slice(text.indexOf('(') + 1, close),
    // An exec first says where the environment begins, then measures it, and says where its code is when it is done with both:
    // until then an environment that begins where it ends is one that is not measured yet.
    empty_environment: start_code !== '0' && environment_start !== '0' && environment_start === environment_end,
  };
}

function readStat(pid: number): Stat | null {
  const text = textOf(pid, 'stat');
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
 * `unsettled`: in the midst of an exec, or of its end, a process has neither environment nor arguments for a moment (a long
 * one on a busy host), and cannot be told from a stranger.
 */
function readRow(pid: number): { row: ProcessRow; unsettled: boolean } | null {
  const stat = readStat(pid);
  if (!stat || stat.ppid === kernelThreads || pid === kernelThreads) return null;
  const environ = textOf(pid, 'environ');
  const tags = tagsFrom(environ ?? '');
  const cmdline = tags ? (textOf(pid, 'cmdline') ?? '') : '';
  const row = {
    pid,
    ppid: stat.ppid,
    session: stat.session,
    start: stat.start,
    terminal: stat.terminal,
    cwd: unlessGone(() => readlinkSync(`/proc/${pid}/cwd`)),
    tags,
    argv: cmdline ? cmdline.split('\0').slice(0, -1) : [stat.name],
  };
  const unsettled = tags ? cmdline === '' : environ === '' && readStat(pid)?.empty_environment !== true;
  return { row, unsettled };
}

/** Synchronous reads cost a tenth of asynchronous ones here; in slices, so that the event loop is never held for long. */
const slice = 64;
const settle_rounds = 100;
const settle_pause_ms = 10;

export function procfsReader(clock: Clock): ProcessReader {
  /** Processes that blanked both for good, by pid and start: they are waited for once, not at every reading. */
  const blank = new Map<number, string>();

  async function settled(pid: number): Promise<ProcessRow | null> {
    for (let round = 0; ; round++) {
      const read = readRow(pid);
      if (!read?.unsettled || blank.get(pid) === read.row.start) return read?.row ?? null;
      if (round === settle_rounds) blank.set(pid, read.row.start);
      else await pause(clock, settle_pause_ms);
    }
  }

  return {
    async read() {
      const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
      const rows: (ProcessRow | null)[] = [];
      for (const [index, pid] of pids.entries()) {
        if (index % slice === slice - 1) await pause(clock, 0);
        rows.push(await settled(Number(pid)));
      }
      return rows.filter((row) => row !== null);
    },
    startOf: (pid) => readStat(pid)?.start ?? null,
  };
}
