/**
 * Caches each join token with its pool, so that a heartbeat needs no query. A token admits machines
 * to its own pool only, until it expires or is revoked. A token with `max_uses` admits heartbeats
 * only of machines that joined with it, so heartbeats need not check whether it is used up.
 */
import { hashSecret } from '../../base/credentials/random-secret.ts';
import type { TokenId } from '../../base/ids.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { hasExpired, isSpent, spentProblem } from '../../store/agents/joins/token-validity.ts';
import type { EvidenceTail } from '../../store/evidence/tail.ts';
import type { Database } from '../../store/pg/database.ts';
import { findJoinTokenBySecret, readJoinToken } from '../../store/rows/tokens.ts';

export interface JoinGrant {
  token_id: TokenId;
  pool: string;
  expires_at: Date | null;
  /** The token admits a limited number of machines, and heartbeats of those only. */
  is_limited: boolean;
  revoked_at: Date | null;
}

export type GrantState = 'valid' | 'expired' | 'revoked';

export interface JoinGrants {
  /** Undefined if no such token is stored. */
  find(secret: string, now: Date): Promise<{ grant: JoinGrant; state: GrantState } | undefined>;
  /**
   * Refuses a used-up token in calls about the whole pool. Reads the row of a limited token, since
   * every join changes it.
   */
  mustHaveUses(grant: JoinGrant): Promise<void>;
}

const maxCached = 10_000;

export function createJoinGrants(
  db: Database,
  tail: Pick<EvidenceTail, 'subscribe' | 'whenHistoryChanged'>,
): JoinGrants {
  const grantsByHash = new Map<string, JoinGrant>();
  /**
   * A row read while a revocation arrives may predate it, and a row read while the database is
   * replaced may be from the former one. Neither is cached.
   */
  let changes = 0;

  const read = async (secret: string, key: string): Promise<JoinGrant | undefined> => {
    const changesBefore = changes;
    const row = await findJoinTokenBySecret(db, secret);
    if (!row) return undefined;
    const { token_id, pool, expires_at, max_uses, revoked_at } = row;
    const grant = { token_id, pool, expires_at, is_limited: max_uses !== null, revoked_at };
    if (grantsByHash.size >= maxCached) grantsByHash.clear();
    if (changesBefore === changes) grantsByHash.set(key, grant);
    return grant;
  };

  tail.subscribe(({ kind, data, at }: Evidence) => {
    if (kind !== 'join_token.revoked') return;
    changes++;
    for (const grant of grantsByHash.values()) if (grant.token_id === data.token_id) grant.revoked_at ??= new Date(at);
  });
  tail.whenHistoryChanged(() => {
    changes++;
    grantsByHash.clear();
  });

  return {
    async find(secret, now) {
      const key = hashSecret(secret).toString('base64');
      const grant = grantsByHash.get(key) ?? (await read(secret, key));
      if (!grant) return undefined;
      // Checked each time, since a cached token also expires.
      return { grant, state: grant.revoked_at ? 'revoked' : hasExpired(grant, now) ? 'expired' : 'valid' };
    },
    async mustHaveUses(grant) {
      if (!grant.is_limited) return;
      const row = await readJoinToken(db, grant.token_id);
      if (!row || isSpent(row)) throw spentProblem(grant);
    },
  };
}
