/** Machines that beat with a join token, and so fall silent when it expires. */
import type { Queryable } from '../../pg/database.ts';
import type { FindingRow } from '../../rows/findings.ts';

export interface DependedToken {
  token_id: string;
  pool: string;
  created_at: Date;
  expires_at: Date;
  machines: number;
}

/** AgentField nodes show their join token with every call. Workspaces of molecule beat with a credential of their own. */
export const dependedTokens = (db: Queryable, expires_before: Date): Promise<DependedToken[]> =>
  db.query<DependedToken>(
    `select token.token_id, token.pool, token.created_at, token.expires_at, count(*)::int as machines
     from join_tokens token
       join instances instance on instance.join_token_id = token.token_id
       join nodes node on node.node_instance_id = instance.node_instance_id
     where token.expires_at < $1
       and token.revoked_at is null
       and instance.door = 'agentfield'
       and instance.fenced_at is null
       -- One that is gone for good needs no other token.
       and node.status in ('starting', 'ready', 'degraded', 'offline')
     group by token.token_id
     order by token.expires_at`,
    [expires_before],
    { often: true },
  );

/** Contested names that nobody has asked for since, or whose node is gone. */
export const quietContests = (db: Queryable, since: Date): Promise<FindingRow[]> =>
  db.query<FindingRow>(
    `select finding.*
     from findings finding left join nodes node on node.node_id = finding.node_id
     where finding.what = 'name_contested'
       and finding.closed_at is null
       and (finding.seen_at < $1 or node.node_id is null or node.status = 'retired')`,
    [since],
  );
