/**
 * Allows one agent per directory: two would number the same spool twice. The lock names a process,
 * so a dead one does not hold it.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { processRow } from '../process/process-table.ts';
import { readJsonFile } from './durable-file.ts';
import { errorCode, isFields } from './shape.ts';

/** Returns the pid of the agent that already runs there, or null if the lock is ours now. */
export function lockDirectory(agent_directory: string): number | null {
  const path = join(agent_directory, 'agent.pid');
  const mine = JSON.stringify({ pid: process.pid, start: startOf(process.pid) });
  for (;;) {
    try {
      writeFileSync(path, mine, { flag: 'wx', mode: 0o600 });
      return null;
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error;
    }
    const holder = livingHolder(path);
    if (holder !== null) return holder;
    rmSync(path, { force: true });
  }
}

export function unlockDirectory(agent_directory: string): void {
  const path = join(agent_directory, 'agent.pid');
  const mine = JSON.stringify({ pid: process.pid, start: startOf(process.pid) });
  if (readFileSync(path, 'utf8') === mine) rmSync(path, { force: true });
}

const startOf = (pid: number) => processRow(pid)?.start ?? null;

function livingHolder(path: string): number | null {
  const holder = readJsonFile(path);
  if (!isFields(holder) || typeof holder.pid !== 'number' || holder.pid === process.pid) return null;
  if (process.platform === 'linux') return startOf(holder.pid) === holder.start ? holder.pid : null;
  try {
    process.kill(holder.pid, 0);
    return holder.pid;
  } catch (error) {
    if (errorCode(error) === 'ESRCH') return null;
    throw error;
  }
}
