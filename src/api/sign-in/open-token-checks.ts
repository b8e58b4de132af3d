/** Opens the state for token checks: failures by address, and the last use of each token. */
import type { Clock } from '../../base/clock.ts';
import type { Queryable } from '../../store/pg/database.ts';
import { createTokenUses } from '../../store/rows/sign-in/token-uses.ts';
import type { ApiServices } from '../services.ts';
import { createFailureThrottle } from './failure-throttle.ts';

export function openTokenChecks(options: {
  db: Queryable;
  clock: Clock;
  settings: { token_failures: number };
  onError(message: string): (error: unknown) => void;
  parts: AsyncDisposableStack;
}): Pick<ApiServices, 'tokenFailures' | 'tokenUses'> {
  const { db, clock, settings, onError, parts } = options;
  const tokenUses = createTokenUses(db, clock, onError('could not record the last use of tokens'));
  parts.defer(() => tokenUses.stop());
  return { tokenFailures: createFailureThrottle(clock, settings.token_failures), tokenUses };
}
