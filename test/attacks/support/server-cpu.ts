/**
 * Measures the CPU time of a server's process, which other processes do not affect. Works only on
 * Linux, like the servers under test.
 */
import { readFileSync } from 'node:fs';

const ticksPerSecond = 100;

function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field is the name in parentheses, which may contain blanks; fields 14 and 15 are
  // user and system time.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** The CPU time that the server spent while `work` ran. */
export async function cpuSpentOn(pid: number, work: () => Promise<unknown>): Promise<number> {
  const secondsBefore = cpuSeconds(pid);
  await work();
  return cpuSeconds(pid) - secondsBefore;
}
