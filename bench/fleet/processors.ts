/**
 * Measures the CPU time of the servers, of the database with all its children and of this process,
 * which simulates the fleet, and how much CPU time remained idle.
 */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { systemClock } from '../../src/base/clock.ts';
import { isProcessAlive } from '../../src/base/network/host.ts';
import { childrenOf } from '../harness/process-table.ts';
import { residentMb } from '../harness/server-process.ts';

/** /proc counts CPU time in ticks of 10 ms. */
const tickSeconds = 0.01;

/** `ended` is the CPU time of children that have ended, which /proc adds to their parent. */
function ticksOf(pid: number): { own: number; ended: number } {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ').map(Number) ?? [];
    const [utime = 0, stime = 0, cutime = 0, cstime = 0] = fields.slice(11, 15);
    return { own: utime + stime, ended: cutime + cstime };
  } catch (error) {
    if (error instanceof Error && 'code' in error) return { own: 0, ended: 0 };
    throw error;
  }
}

function databaseSeconds(postmaster: number): number {
  const { own, ended } = ticksOf(postmaster);
  const living = childrenOf(postmaster).reduce((sum, pid) => sum + ticksOf(pid).own, 0);
  return (own + ended + living) * tickSeconds;
}

function idleSeconds(): number {
  const idleMs = cpus().reduce((sum, { times }) => sum + times.idle, 0);
  return idleMs / 1000;
}

/** CPU times are in seconds since the start of each process, or of the machine for `idle`. */
export interface Reading {
  atMs: number;
  servers: number[];
  database: number;
  fleet: number;
  idle: number;
  residentMb: number[];
}

export function readProcessors(servers: readonly number[], postmaster: number): Reading {
  const { user, system } = process.cpuUsage();
  return {
    atMs: systemClock.monotonicMs(),
    servers: servers.map((pid) => ticksOf(pid).own * tickSeconds),
    database: databaseSeconds(postmaster),
    fleet: (user + system) / 1e6,
    idle: idleSeconds(),
    residentMb: servers.filter(isProcessAlive).map(residentMb),
  };
}

/** CPU use; 1 means one fully busy CPU. */
export interface CpuUsage {
  servers: number[];
  database: number;
  fleet: number;
  idle: number;
  /** Other processes on the machine. */
  others: number;
}

export function cpuUsageBetween(before: Reading, after: Reading): CpuUsage {
  const seconds = (after.atMs - before.atMs) / 1000;
  const servers = after.servers.map((spent, place) => (spent - (before.servers[place] ?? 0)) / seconds);
  const database = (after.database - before.database) / seconds;
  const fleet = (after.fleet - before.fleet) / seconds;
  const idle = (after.idle - before.idle) / seconds;
  const usedByRun = servers.reduce((sum, each) => sum + each, 0) + database + fleet;
  return { servers, database, fleet, idle, others: Math.max(0, cpus().length - idle - usedByRun) };
}
