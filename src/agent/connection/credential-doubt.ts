/** One `credential_unknown` may come from a server whose store is being restored; the same word for a while may not. */
import type { Clock } from '../../base/clock.ts';
import type { CallFailure } from './call-failure.ts';

export interface CredentialDoubt {
  /** A call was answered: the credential is known after all. */
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
