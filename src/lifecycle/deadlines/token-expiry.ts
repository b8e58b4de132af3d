/** Decides when an expiring token needs a notice, and why a token needs none. */
import { secondsLater } from '../../base/clock.ts';

/** A notice opens in the last tenth of a token's lifetime, but at most a week before it expires. */
const noticeShare = 0.1;
export const maxNoticeSeconds = 7 * 86_400;

export function noticeTime({ created_at, expires_at }: { created_at: Date; expires_at: Date }): Date {
  const lifeMs = expires_at.getTime() - created_at.getTime();
  return new Date(expires_at.getTime() - Math.min(lifeMs * noticeShare, maxNoticeSeconds * 1000));
}

/** A token counts as in use for this long after its last use. */
export const inUseSeconds = 7 * 86_400;

/** A token of a person, a program or a relay. */
export interface TokenLife {
  created_at: Date;
  expires_at: Date;
  revoked_at: Date | null;
  last_used_at: Date | null;
  replaced: boolean;
}

/** Why a token needs no renewal. */
export const settledReasons = {
  revoked: 'the token was revoked',
  expired: 'the token has expired',
  replaced: 'another token of the same name, role and scope is in use',
  unused: 'the token was not used for 7 days',
} as const;
export type SettledReason = keyof typeof settledReasons;

export function findSettledReason(token: TokenLife, now: Date): SettledReason | null {
  if (token.revoked_at) return 'revoked';
  if (token.expires_at <= now) return 'expired';
  if (token.replaced) return 'replaced';
  return token.last_used_at && token.last_used_at > secondsLater(now, -inUseSeconds) ? null : 'unused';
}

export const needsNotice = (token: TokenLife, now: Date): boolean =>
  findSettledReason(token, now) === null && noticeTime(token) <= now;
