/** Turns an error of the container engine into a driver outcome with an owner, retryable or not. */
import type { DriverFailure, DriverWait } from '../driver.ts';
import { codeOf, statusOf } from '../upstream-error.ts';
import { isUnavailable, messageOf } from './engine-error.ts';

export const unavailable_retry_seconds = 5;

export const engineUnavailable = (address: string, because: string): DriverWait => ({
  outcome: 'wait',
  retry_seconds: unavailable_retry_seconds,
  message: `the container engine at ${address} is unavailable (${because}); retrying`,
  put_off: true,
  error: { code: 'engine_away', owner_layer: 'provider' },
});

/** Returns an outcome for an operational error. Rethrows any other error, which is a bug. */
export function engineFailure(
  error: unknown,
  address: string,
  redact: (text: string) => string,
): DriverFailure | DriverWait {
  const message = redact(messageOf(error));
  if (isUnavailable(error)) return engineUnavailable(address, message);
  const failure = (code: string, retryable: boolean): DriverFailure => ({
    outcome: 'failed',
    owner_layer: 'provider',
    code,
    message: `the container engine at ${address} refused: ${message}`,
    retryable,
  });
  const isDenied = ['EACCES', 'EPERM'].includes(codeOf(error) ?? '');
  // Retryable, because an operator can restore the permission without changing the spec.
  if (isDenied) return failure('engine_permission_denied', true);
  const status = statusOf(error);
  if (status === null && codeOf(error) === null) throw error;
  if (status === 400) return failure('engine_refused_spec', false);
  return failure('engine_error', true);
}
