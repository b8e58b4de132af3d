/**
 * Identifies this host, so that a replica knows whether another replica's process id is meaningful
 * here.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Only Linux has these files; elsewhere the host name has to do. */
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
    // Not being allowed to signal a process means that it exists.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
