/**
 * Which pool a join token opens, remembered so that a beat needs no query. Whoever holds a token is trusted with its whole pool, and
 * with no other. An expired one still opens it for the names that are known; it lets no new name in, which the registration judges.
 */
import type { Evidence } from '../../contract/evidence.ts';
import type { Database } from '../../store/database.ts';
import { hashSecret } from '../../store/instances.ts';
import { joinTokenBySecret } from '../../store/tokens.ts';

export interface JoinGrant {
  token_id: string;
  pool: string;
}

export interface JoinGrants {
  find(secret: string): Promise<JoinGrant | undefined>;
  observe(fact: Evidence): void;
}

const mostRemembered = 10_000;

export function createJoinGrants(db: Database): JoinGrants {
  const known = new Map<string, JoinGrant>();
  /** What was read before a revocation was heard of may be older than it. */
  let revocations = 0;
  return {
    async find(secret) {
      const key = hashSecret(secret).toString('base64');
      const remembered = known.get(key);
      if (remembered) return remembered;
      const before = revocations;
      const row = await joinTokenBySecret(db, secret);
      if (!row || row.revoked_at) return undefined;
      const grant = { token_id: row.token_id, pool: row.pool };
      if (known.size >= mostRemembered) known.clear();
      if (before === revocations) known.set(key, grant);
      return grant;
    },
    observe({ kind, data }) {
      if (kind !== 'join_token.revoked') return;
      revocations++;
      for (const [key, { token_id }] of known) if (token_id === data.token_id) known.delete(key);
    },
  };
}
