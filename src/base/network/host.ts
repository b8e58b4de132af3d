/** Reads the identity of this host, its processes and the limit of open files. */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Only Linux has these files. On other systems, the identity is the host name alone. */
function readOrEmpty(read: () => string): string {
  try {
    return read().trim();
  } catch (error) {
    if (error instanceof Error && 'code' in error) return '';
    throw error;
  }
}

/** Two replicas with the same identity can check each other's process ids. */
export const hostIdentity = (): string =>
  [
    hostname(),
    readOrEmpty(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    readOrEmpty(() => readlinkSync('/proc/self/ns/pid')),
  ]
    .filter(Boolean)
    .join('/');

export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // If we may not signal the process, it exists.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** The value for no limit, and for a limit that cannot be read. */
const unlimited = 1_000_000;

/**
 * Returns how many files and connections this process may have open. Node raises the soft limit to
 * the hard one at startup.
 */
export function openFilesLimit(): number {
  // Without this option, the report queries every network interface.
  const report = Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: number | 'unlimited' } } };
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : unlimited;
}
