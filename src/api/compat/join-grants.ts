/**
 * Caches which pool a join token opens, so that a heartbeat needs no query. A token opens its own
 * pool only, until it expires or is revoked. One with `max_uses` speaks only for the machines that
 * joined with it, so heartbeats need not know whether it is used up.
 */
import { hashSecret } from '../../base/credentials/random-secret.ts';
import type { TokenId } from '../../base/ids.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { hasExpired, isSpent, spentProblem } from '../../store/agents/joins/token-validity.ts';
import type { Database } from '../../store/pg/database.ts';
import { joinTokenById, joinTokenBySecret } from '../../store/rows/tokens.ts';

export interface JoinGrant {
  token_id: TokenId;
  pool: string;
  expires_at: Date | null;
  /** It admits a limited number of machines, and speaks only for those. */
  is_limited: boolean;
  revoked_at: Date | null;
}

export type GrantState = 'valid' | 'expired' | 'revoked';

export interface JoinGrants {
  /** Undefined for a token that never existed. */
  find(secret: string, now: Date): Promise<{ grant: JoinGrant; state: GrantState } | undefined>;
  /**
   * For calls about the whole pool. Reads the row of a limited token, since every join changes it.
   */
  mustHaveUses(grant: JoinGrant): Promise<void>;
  observe(fact: Evidence): void;
}

const maxRemembered = 10_000;

export function createJoinGrants(db: Database): JoinGrants {
  const known = new Map<string, JoinGrant>();
  /** Rows read before a revocation arrived may be older than it, so they are not cached. */
  let revocations = 0;

  const read = async (secret: string, key: string): Promise<JoinGrant | undefined> => {
    const before = revocations;
    const row = await joinTokenBySecret(db, secret);
    if (!row) return undefined;
    const { token_id, pool, expires_at, max_uses, revoked_at } = row;
    const grant = { token_id, pool, expires_at, is_limited: max_uses !== null, revoked_at };
    if (known.size >= maxRemembered) known.clear();
    if (before === revocations) known.set(key, grant);
    return grant;
  };

  return {
    async find(secret, now) {
      const key = hashSecret(secret).toString('base64');
      const grant = known.get(key) ?? (await read(secret, key));
      if (!grant) return undefined;
      // Checked each time, since a cached token also expires.
      return { grant, state: grant.revoked_at ? 'revoked' : hasExpired(grant, now) ? 'expired' : 'valid' };
    },
    async mustHaveUses(grant) {
      if (!grant.is_limited) return;
      const row = await joinTokenById(db, grant.token_id);
      if (!row || isSpent(row)) throw spentProblem(grant);
    },
    observe({ kind, data, at }) {
      if (kind !== 'join_token.revoked') return;
      revocations++;
      for (const grant of known.values()) if (grant.token_id === data.token_id) grant.revoked_at ??= new Date(at);
    },
  };
}
