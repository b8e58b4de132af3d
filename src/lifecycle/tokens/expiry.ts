/** Whether an expiring token of a person, a program or a relay is worth a notice. Pure. */
import { secondsLater } from '../../base/clock.ts';
import { noticeFrom } from '../deadlines/token-expiry.ts';

/** A token that was not used for this long is not in use. */
export const inUseSeconds = 7 * 86_400;

export interface TokenLife {
  created_at: Date;
  expires_at: Date;
  revoked_at: Date | null;
  last_used_at: Date | null;
  replaced: boolean;
}

/** Why nobody needs to renew a token, in words. */
export const settledReasons = {
  revoked: 'the token was revoked',
  expired: 'the token has expired',
  replaced: 'another token of the same name, role and scope is in use',
  unused: 'the token was not used for 7 days',
} as const;
export type SettledReason = keyof typeof settledReasons;

export function settledBy(token: TokenLife, now: Date): SettledReason | null {
  if (token.revoked_at) return 'revoked';
  if (token.expires_at <= now) return 'expired';
  if (token.replaced) return 'replaced';
  return token.last_used_at && token.last_used_at > secondsLater(now, -inUseSeconds) ? null : 'unused';
}

export const needsNotice = (token: TokenLife, now: Date): boolean =>
  settledBy(token, now) === null && noticeFrom(token) <= now;
