/** Ends processes with SIGTERM, after a grace period with SIGKILL, and checks that they ended. */
import { type Clock, pause } from '../../base/clock.ts';
import { errorCode } from '../state/shape.ts';
import { listProcesses, type ProcessRow, readProcess } from './process-table.ts';

/** How long the kernel may take to end a killed process. */
const max_kill_ms = 2_000;
const first_poll_ms = 5;
const max_poll_ms = 100;

export function signalGroup(group: number, signal: NodeJS.Signals): void {
  send(-group, signal);
}

/** Returns false if the process or group does not exist. */
function send(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(target, signal);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ESRCH') return false;
    // The process changed its user, so we cannot signal it, but it exists.
    if (errorCode(error) === 'EPERM') return true;
    throw error;
  }
}

/** Whether a process of the group runs. Zombies do not count on Linux. */
function isGroupAlive(group: number): boolean {
  if (!send(-group, 0)) return false;
  return process.platform !== 'linux' || listProcesses().some((row) => row.group === group);
}

/** Returns whether the processes ended within the time. */
async function waitForEnd(ms: number, clock: Clock, isAlive: () => boolean): Promise<boolean> {
  const deadline = clock.monotonicMs() + ms;
  for (let poll_ms = first_poll_ms; isAlive(); poll_ms = Math.min(poll_ms * 2, max_poll_ms)) {
    if (clock.monotonicMs() >= deadline) return false;
    await pause(clock, poll_ms);
  }
  return true;
}

/** Returns whether the whole group has ended. */
export async function endGroup(group: number, grace_ms: number, clock: Clock): Promise<boolean> {
  const isAlive = () => isGroupAlive(group);
  signalGroup(group, 'SIGTERM');
  if (await waitForEnd(grace_ms, clock, isAlive)) return true;
  signalGroup(group, 'SIGKILL');
  return waitForEnd(max_kill_ms, clock, isAlive);
}

/** Whether the pid still belongs to this process. Pids are reused. */
const isSameProcess = (row: ProcessRow) => readProcess(row.pid)?.start === row.start;

/**
 * Ends each process on its own, because some may have left their group. Returns whether all have
 * ended.
 */
export async function endProcesses(rows: ProcessRow[], grace_ms: number, clock: Clock): Promise<boolean> {
  const listLiving = () => rows.filter((row) => isSameProcess(row) && readProcess(row.pid)?.state !== 'Z');
  for (const { pid } of listLiving()) send(pid, 'SIGTERM');
  if (await waitForEnd(grace_ms, clock, () => listLiving().length > 0)) return true;
  for (const { pid } of listLiving()) send(pid, 'SIGKILL');
  return waitForEnd(max_kill_ms, clock, () => listLiving().length > 0);
}
