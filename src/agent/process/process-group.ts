/** Ends processes: SIGTERM, wait, SIGKILL, and then checks that they are gone. */
import { type Clock, pause } from '../../base/clock.ts';
import { errorCode } from '../state/shape.ts';
import { type ProcessRow, processRow, processRows } from './process-table.ts';

/** How long the kernel may take for a kill. */
const kill_takes_ms = 2_000;
const first_look_ms = 5;
const max_look_ms = 100;

export function signalGroup(group: number, signal: NodeJS.Signals): void {
  send(-group, signal);
}

/** Returns false if there is no such process. */
function send(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(target, signal);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ESRCH') return false;
    // A member that changed its user still runs, and is still reported.
    if (errorCode(error) === 'EPERM') return true;
    throw error;
  }
}

/** Zombies do not count. */
function groupLives(group: number): boolean {
  if (!send(-group, 0)) return false;
  return process.platform !== 'linux' || processRows().some((row) => row.group === group);
}

async function goneWithin(ms: number, clock: Clock, lives: () => boolean): Promise<boolean> {
  const until = clock.monotonicMs() + ms;
  for (let look_ms = first_look_ms; lives(); look_ms = Math.min(look_ms * 2, max_look_ms)) {
    if (clock.monotonicMs() >= until) return false;
    await pause(clock, look_ms);
  }
  return true;
}

export async function endGroup(group: number, grace_ms: number, clock: Clock): Promise<boolean> {
  const lives = () => groupLives(group);
  signalGroup(group, 'SIGTERM');
  if (await goneWithin(grace_ms, clock, lives)) return true;
  signalGroup(group, 'SIGKILL');
  return goneWithin(kill_takes_ms, clock, lives);
}

const sameProcess = (row: ProcessRow) => processRow(row.pid)?.start === row.start;

/**
 * One by one, for processes that left their group; the pid may have been reused since it was read.
 */
export async function endProcesses(rows: ProcessRow[], grace_ms: number, clock: Clock): Promise<boolean> {
  const living = () => rows.filter((row) => sameProcess(row) && processRow(row.pid)?.state !== 'Z');
  for (const { pid } of living()) send(pid, 'SIGTERM');
  if (await goneWithin(grace_ms, clock, () => living().length > 0)) return true;
  for (const { pid } of living()) send(pid, 'SIGKILL');
  return goneWithin(kill_takes_ms, clock, () => living().length > 0);
}
