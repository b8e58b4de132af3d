/**
 * Turns an operating system error into a driver failure: its owner, and whether a retry can help.
 */
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

/** An error of the host becomes a value; anything else is a bug and is rethrown. */
export function hostFailure(error: unknown): DriverFailure {
  const code = errorCode(error);
  if (!(error instanceof Error) || code === null || !/^E[A-Z0-9]+$/.test(code)) throw error;
  return {
    outcome: 'failed',
    owner_layer: 'provider',
    code: hostProblems[code] ?? 'host_error',
    message: `the host refused: ${error.message}`,
    // The request is right, so a retry helps after an operator frees space or restores a
    // permission.
    retryable: true,
  };
}
