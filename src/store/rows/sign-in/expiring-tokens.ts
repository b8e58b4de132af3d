/** Reads tokens that expire soon, with the columns that decide whether to warn about them. */
import type { TokenRole } from '../../../contract/security/token.ts';
import type { Queryable } from '../../pg/database.ts';

export interface ExpiringToken {
  token_id: string;
  name: string;
  role: TokenRole;
  tenant: string | null;
  pool: string | null;
  created_at: Date;
  expires_at: Date;
  revoked_at: Date | null;
  last_used_at: Date | null;
  /** Whether another token of this name, role and scope is in use and expires later or never. */
  replaced: boolean;
}

export interface ExpiringQuery {
  now: Date;
  expires_until: Date;
  /** A token counts as in use if it was used after this time. */
  used_after: Date;
  /** These tokens are returned whether or not they expire soon or are in use. */
  token_ids: readonly string[];
}

export const listExpiringTokens = (db: Queryable, query: ExpiringQuery): Promise<ExpiringToken[]> =>
  db.query<ExpiringToken>(
    `select token.token_id, token.name, token.role, token.tenant, token.pool,
       token.created_at, token.expires_at, token.revoked_at, used.last_used_at,
       exists (
         select from tokens other
           join token_uses other_used on other_used.token_id = other.token_id
         where other.token_id <> token.token_id
           and other.name = token.name
           and other.role = token.role
           and other.tenant is not distinct from token.tenant
           and other.pool is not distinct from token.pool
           and other.revoked_at is null
           and (other.expires_at is null or other.expires_at > token.expires_at)
           and other_used.last_used_at > $3
       ) as replaced
     from tokens token
       left join token_uses used on used.token_id = token.token_id
     where token.token_id = any($4)
       or (token.expires_at > $1
         and token.expires_at <= $2
         and token.revoked_at is null
         and used.last_used_at > $3)
     order by token.expires_at, token.token_id`,
    [query.now, query.expires_until, query.used_after, query.token_ids],
    { prepared: true },
  );
