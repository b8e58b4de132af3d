/** Turns an operating system error into a retryable driver failure. */
import type { DriverFailure } from '../driver.ts';

export function errorCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

const hostProblems: Record<string, string> = {
  ENOSPC: 'host_disk_full',
  EDQUOT: 'host_disk_full',
  EMFILE: 'host_resources_exhausted',
  ENFILE: 'host_resources_exhausted',
  EAGAIN: 'host_resources_exhausted',
  ENOMEM: 'host_resources_exhausted',
  EACCES: 'host_permission_denied',
  EPERM: 'host_permission_denied',
  EROFS: 'host_permission_denied',
  EBUSY: 'host_directory_busy',
  ENOTEMPTY: 'host_directory_busy',
};

/** Returns a failure for an error of the host. Rethrows any other error, which is a bug. */
export function hostFailure(error: unknown): DriverFailure {
  const code = errorCode(error);
  if (!(error instanceof Error) || code === null || !/^E[A-Z0-9]+$/.test(code)) throw error;
  return {
    outcome: 'failed',
    owner_layer: 'provider',
    code: hostProblems[code] ?? 'host_error',
    message: `the host refused: ${error.message}`,
    // A retry can succeed after an operator frees space or restores a permission.
    retryable: true,
  };
}
