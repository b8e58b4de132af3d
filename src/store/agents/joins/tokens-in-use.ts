/** Finds join tokens that machines still need, and contested names that are quiet again. */
import type { Queryable } from '../../pg/database.ts';
import type { FindingRow } from '../../rows/findings.ts';

export interface TokenInUse {
  token_id: string;
  pool: string;
  created_at: Date;
  expires_at: Date;
  machines: number;
}

/**
 * Finds join tokens that expire soon while machines depend on them. AgentField nodes send their
 * join token with every call, so they go offline when it expires. Molecule workspaces have their
 * own credential. The `earlier_join_token_ids` of a machine do not count: it has registered with
 * another token since, as the finding asks.
 */
export const listTokensInUse = (db: Queryable, expires_before: Date): Promise<TokenInUse[]> =>
  db.query<TokenInUse>(
    `select token.token_id, token.pool, token.created_at, token.expires_at, count(*)::int as machines
     from join_tokens token
     join instances instance on instance.join_token_id = token.token_id
     join nodes node on node.node_instance_id = instance.node_instance_id
     where token.expires_at < $1
       and token.revoked_at is null
       and instance.door = 'agentfield'
       and instance.fenced_at is null
       -- Nodes in other statuses no longer need a token.
       and node.status in ('starting', 'ready', 'degraded', 'offline')
     group by token.token_id
     order by token.expires_at`,
    [expires_before],
    { prepared: true },
  );

export async function readRevokedJoinTokens(db: Queryable, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await db.query<{ token_id: string }>(
    `select token_id
     from join_tokens
     where token_id = any($1)
       and revoked_at is not null`,
    [ids],
  );
  return new Set(rows.map(({ token_id }) => token_id));
}

/** Finds open contests without a refused registration since a time, or without a live node. */
export const listQuietContests = (db: Queryable, since: Date): Promise<FindingRow[]> =>
  db.query<FindingRow>(
    `select finding.*
     from findings finding
     left join nodes node on node.node_id = finding.node_id
     where finding.what = 'name_contested'
       and finding.closed_at is null
       and (finding.seen_at < $1 or node.node_id is null or node.status = 'retired')`,
    [since],
  );
