/**
 * Computes when agent credentials expire and until when an expired one may be rotated. An expiry of
 * 0 means that the credential does not expire.
 */
import type { Clock } from '../../base/clock.ts';
import { secondsLater } from '../../base/clock.ts';

export interface CredentialAge {
  /** Expiry of a credential issued at this time; null if credentials do not expire. */
  expiryFrom(at: Date): Date | null;
  isExpired(expires_seconds: number): boolean;
  /** Whether an expired credential may still be exchanged for a new one. */
  mayRotate(expires_seconds: number): boolean;
}

export function createCredentialAge(
  clock: Clock,
  { credential_seconds, credential_grace_seconds }: { credential_seconds: number; credential_grace_seconds: number },
): CredentialAge {
  return {
    expiryFrom: (at) => (credential_seconds === 0 ? null : secondsLater(at, credential_seconds)),
    isExpired: (expires_seconds) => expires_seconds !== 0 && clock.nowMs() > 1000 * expires_seconds,
    mayRotate: (expires_seconds) => clock.nowMs() <= 1000 * (expires_seconds + credential_grace_seconds),
  };
}
