/**
 * Decides when to believe `credential_unknown`: one may come from a server whose store is being
 * restored, many over a while do not.
 */
import type { Clock } from '../../base/clock.ts';
import type { CallFailure } from './call-failure.ts';

export interface CredentialDoubt {
  /** A call was answered, so the credential is known. */
  dispelled(): void;
  confirmedBy(failure: CallFailure): boolean;
}

export function credentialDoubt(clock: Clock, doubt_ms: number): CredentialDoubt {
  let since: number | null = null;
  return {
    dispelled() {
      since = null;
    },
    confirmedBy({ code }) {
      if (code !== 'credential_unknown') return false;
      since ??= clock.monotonicMs();
      if (clock.monotonicMs() - since < doubt_ms) return false;
      since = null;
      return true;
    },
  };
}
