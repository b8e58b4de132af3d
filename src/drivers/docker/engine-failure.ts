/** Turns an engine's refusal into a driver's answer: its owner, and whether a retry can help. */
import type { DriverFailure, DriverWait } from '../driver.ts';
import { codeOf, statusOf } from '../upstream-error.ts';
import { isAway, messageOf } from './engine-error.ts';

export const away_seconds = 5;

export const engineAway = (address: string, because: string): DriverWait => ({
  outcome: 'wait',
  retry_seconds: away_seconds,
  message: `the container engine at ${address} does not answer (${because}); it is asked again`,
  put_off: true,
  error: { code: 'engine_away', owner_layer: 'provider' },
});

/** An operational error becomes a value; anything else is a bug and is rethrown. */
export function engineFailure(
  error: unknown,
  address: string,
  redact: (text: string) => string,
): DriverFailure | DriverWait {
  const words = redact(messageOf(error));
  if (isAway(error)) return engineAway(address, words);
  const failed = (code: string, retryable: boolean): DriverFailure => ({
    outcome: 'failed',
    owner_layer: 'provider',
    code,
    message: `the container engine at ${address} refused: ${words}`,
    retryable,
  });
  const denied = ['EACCES', 'EPERM'].includes(codeOf(error) ?? '');
  // Somebody can restore the permission; nothing about the request is wrong.
  if (denied) return failed('engine_permission_denied', true);
  const status = statusOf(error);
  if (status === null && codeOf(error) === null) throw error;
  if (status === 400) return failed('engine_refused_spec', false);
  return failed('engine_error', true);
}
