/** Which host this is, so that a replica can tell whether another one's process number means anything here. */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Where the kernel offers no such file (not Linux), the host's name alone has to do. */
function orNothing(read: () => string): string {
  try {
    return read().trim();
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}

export const hostIdentity = (): string =>
  [
    hostname(),
    orNothing(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    orNothing(() => readlinkSync('/proc/self/ns/pid')),
  ]
    .filter(Boolean)
    .join('/');

export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // Not allowed to signal it means that it is there.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
