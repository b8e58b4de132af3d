/** Decides whether a proof of an agent's key is recent, and whether it was used before. */
import { secondsBetween } from '../../../base/clock.ts';
import type { InstanceRow } from '../instances.ts';

/** A proof is signed for one request, so a larger difference means a replay or a wrong clock. */
const maxSkewSeconds = 300;

export function findTimeFault(
  signed_at: Date,
  { key_proven_at }: Pick<InstanceRow, 'key_proven_at'>,
  now: Date,
): 'stale' | 'replayed' | null {
  // Also refuses an invalid date, such as a leap second, for which every comparison is false.
  if (!(Math.abs(secondsBetween(signed_at, now)) <= maxSkewSeconds)) return 'stale';
  // A proof must be newer than the last accepted one, so a replay is refused.
  return key_proven_at && signed_at <= key_proven_at ? 'replayed' : null;
}
