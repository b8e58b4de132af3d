/** Lists processes from /proc. A process that ends between listing and reading is ignored. */
import { readdirSync, readFileSync } from 'node:fs';

export function readOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error) return otherwise;
    throw error;
  }
}

export const processes = (): string[] => readdirSync('/proc').filter((name) => /^\d+$/.test(name));

const parentOf = (pid: string) => Number(readOr(`/proc/${pid}/stat`, ') ? 0').split(') ').at(-1)?.split(' ')[1]);

export const childrenOf = (pid: number): number[] =>
  processes()
    .filter((name) => parentOf(name) === pid)
    .map(Number);
