/** Checks whether a join token is valid now. */
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { JoinTokenRow } from '../../rows/tokens.ts';

export const hasExpired = ({ expires_at }: Pick<JoinTokenRow, 'expires_at'>, now: Date): boolean =>
  expires_at !== null && expires_at <= now;

export const isSpent = ({ max_uses, uses }: Pick<JoinTokenRow, 'max_uses' | 'uses'>): boolean =>
  max_uses !== null && uses >= max_uses;

export const expiredProblem = ({
  token_id,
  pool,
  expires_at,
}: Pick<JoinTokenRow, 'token_id' | 'pool' | 'expires_at'>) =>
  new ApiProblem(
    'join_token_expired',
    `The join token ${token_id} of pool ${pool} expired at ${expires_at?.toISOString()}; an operator can make another: slipway join-token create ${pool}`,
  );

export const spentProblem = ({ token_id, pool }: Pick<JoinTokenRow, 'token_id' | 'pool'>) =>
  new ApiProblem(
    'join_token_spent',
    `The join token ${token_id} of pool ${pool} has no uses left; an operator can make another: slipway join-token create ${pool}`,
  );

/** Refuses unknown, revoked and expired tokens. A spent token stays valid with a key proof. */
export function requireValidToken(join: JoinTokenRow | undefined, now: Date): JoinTokenRow {
  if (!join || join.revoked_at) throw new ApiProblem('join_token_invalid');
  if (hasExpired(join, now)) throw expiredProblem(join);
  return join;
}
