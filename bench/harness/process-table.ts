/** Reads the processes of this machine from /proc. Processes may end while they are being read. */
import { readdirSync, readFileSync } from 'node:fs';

/** Returns the fallback if the file cannot be read, for example after its process has ended. */
export function readOr(path: string, fallback: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error) return fallback;
    throw error;
  }
}

export const listProcessIds = (): string[] => readdirSync('/proc').filter((name) => /^\d+$/.test(name));

const parentOf = (pid: string) => Number(readOr(`/proc/${pid}/stat`, ') ? 0').split(') ').at(-1)?.split(' ')[1]);

export const childrenOf = (pid: number): number[] =>
  listProcessIds()
    .filter((name) => parentOf(name) === pid)
    .map(Number);
