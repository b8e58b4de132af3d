/** Reads the host's process table from /proc: who runs, whose child it is, and which of our tags it carries. Signals nobody. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { type Clock, pause } from '../../base/clock.ts';
import { errorCode } from './host-failure.ts';

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
}

function readStat(pid: number): Stat | null {
  const text = textOf(pid, 'stat');
  if (!text) return null;
  // The name stands in parentheses and may itself hold spaces and parentheses: fields count from the last one.
  const close = text.lastIndexOf(')');
  const [state = '', ppid, , session, terminal, ...rest] = text.slice(close + 2).split(' ');
  if (ended.has(state)) return null;
  return {
    ppid: Number(ppid),
    session: Number(session),
    terminal: terminal !== '0',
    start: rest[14] ?? '',
    name: text.slice(text.indexOf('(') + 1, close),
  };
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

function readRow(pid: number): ProcessRow | null {
  const stat = readStat(pid);
  if (!stat || stat.ppid === kernelThreads || pid === kernelThreads) return null;
  // In the midst of an exec the environment reads empty for a moment, so an empty one is read a second time.
  const tags = tagsFrom(textOf(pid, 'environ') || textOf(pid, 'environ') || '');
  const argv = tags ? (textOf(pid, 'cmdline') ?? '').split('\0').slice(0, -1) : [];
  return {
    pid,
    ppid: stat.ppid,
    session: stat.session,
    start: stat.start,
    terminal: stat.terminal,
    cwd: unlessGone(() => readlinkSync(`/proc/${pid}/cwd`)),
    tags,
    argv: argv.length > 0 ? argv : [stat.name],
  };
}

/** Synchronous reads cost a tenth of asynchronous ones here; in slices, so that the event loop is never held for long. */
const slice = 64;

async function read(clock: Clock): Promise<ProcessRow[]> {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const rows: ProcessRow[] = [];
  for (const [index, pid] of pids.entries()) {
    if (index % slice === slice - 1) await pause(clock, 0);
    const row = readRow(Number(pid));
    if (row) rows.push(row);
  }
  return rows;
}

export const procfsReader = (clock: Clock): ProcessReader => ({
  read: () => read(clock),
  startOf: (pid) => readStat(pid)?.start ?? null,
});
