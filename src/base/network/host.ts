/** This host: its identity, its processes, and its limit of open files. */
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

/** Tells a replica whether another replica's process id is meaningful here. */
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

/** Also used if the limit cannot be read. */
const unlimited = 1_000_000;

/**
 * The maximum number of files and connections this process may have open. Node raises the soft
 * limit to the hard one at startup.
 */
export function openFilesLimit(): number {
  // Otherwise the report queries every network interface.
  const report = Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: number | 'unlimited' } } };
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : unlimited;
}
