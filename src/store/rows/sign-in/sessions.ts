/**
 * Stores console sessions. Only a hash of the cookie's secret is stored. Ending a session deletes
 * its row.
 */
import { type Clock, secondsLater } from '../../../base/clock.ts';
import { hashSecret, newSecret } from '../../../base/credentials/random-secret.ts';
import { newSessionId } from '../../../base/ids.ts';
import type { ConsoleSession } from '../../../contract/security/token.ts';
import type { Queryable, Transaction } from '../../pg/database.ts';
import type { TokenRow } from '../tokens.ts';

/** The prefix of session secrets. The redactor finds secrets by their prefix. */
const sessionPrefix = 'sws';
/**
 * When a token has more sessions than this, its least recently used session ends, so that one token
 * cannot fill the table.
 */
export const maxSessionsPerToken = 100;
const maxUserAgentLength = 256;

export interface ConsoleSessionRow {
  session_id: string;
  token_id: string;
  created_at: Date;
  last_used_at: Date;
  expires_at: Date;
  address: string | null;
  user_agent: string | null;
}

/** The session of a request's cookie, with its token. */
export interface FoundSession extends TokenRow {
  session_id: string;
  session_used_at: Date;
  session_expires_at: Date;
}

export interface FreshSession {
  token_id: string;
  created_at: Date;
  expires_at: Date;
  address: string;
  user_agent: string | null;
}

/** Returns the secret for the cookie, which is not stored, and the ids of evicted sessions. */
export async function createSession(
  tx: Transaction,
  clock: Clock,
  fresh: FreshSession,
): Promise<{ session_id: string; secret: string; evicted: string[] }> {
  const session_id = newSessionId(clock);
  const secret = newSecret(sessionPrefix);
  await tx.query(
    `insert into sessions (session_id, secret_hash, token_id, created_at, last_used_at, expires_at, address, user_agent)
     values ($1, $2, $3, $4, $4, $5, $6, $7)`,
    [
      session_id,
      hashSecret(secret),
      fresh.token_id,
      fresh.created_at,
      fresh.expires_at,
      fresh.address,
      fresh.user_agent?.slice(0, maxUserAgentLength) ?? null,
    ],
  );
  const evicted = await tx.query<{ session_id: string }>(
    `delete from sessions
     where session_id in (
       select session_id from sessions
       where token_id = $1
         and session_id <> $2
       order by last_used_at desc
       offset $3
     )
     returning session_id`,
    [fresh.token_id, session_id, maxSessionsPerToken - 1],
  );
  return { session_id, secret, evicted: evicted.map((row) => row.session_id) };
}

export async function findSessionBySecret(db: Queryable, secret: string): Promise<FoundSession | undefined> {
  const [session] = await db.query<FoundSession>(
    `select token.*,
       session.session_id, session.last_used_at as session_used_at, session.expires_at as session_expires_at
     from sessions session
     join tokens token using (token_id)
     where session.secret_hash = $1`,
    [hashSecret(secret)],
    { prepared: true },
  );
  return session;
}

/**
 * Whether a session was not ended, was used after `idleCutoff`, and its token is not revoked. The
 * caller must check when the session expires.
 */
export async function isSessionOpen(db: Queryable, id: string, idleCutoff: Date): Promise<boolean> {
  const rows = await db.query(
    `select from sessions session
     join tokens token using (token_id)
     where session.session_id = $1
       and session.last_used_at > $2
       and token.revoked_at is null`,
    [id, idleCutoff],
    { prepared: true },
  );
  return rows.length > 0;
}

export async function touchSession(db: Queryable, id: string, at: Date): Promise<void> {
  await db.query('update sessions set last_used_at = $2 where session_id = $1 and last_used_at < $2', [id, at]);
}

/** With `token_id`, deletes only a session of that token. Returns the session's token. */
export async function deleteSession(
  db: Queryable,
  id: string,
  token_id: string | null,
): Promise<{ token_id: string } | undefined> {
  const [row] = await db.query<{ token_id: string }>(
    `delete from sessions
     where session_id = $1
       and ($2::text is null or token_id = $2)
     returning token_id`,
    [id, token_id],
  );
  return row;
}

export interface SessionQuery {
  /** Null lists the sessions of all tokens. */
  token_id: string | null;
  after: string | undefined;
  limit: number;
  now: Date;
  idleCutoff: Date;
}

export interface ListedSession extends ConsoleSessionRow, Pick<TokenRow, 'name' | 'role' | 'tenant'> {}

/** Lists live sessions, up to one more than the limit, so that the caller knows if more follow. */
export async function listSessions(db: Queryable, query: SessionQuery): Promise<ListedSession[]> {
  return db.query<ListedSession>(
    `select session.session_id, session.token_id, session.created_at, session.last_used_at, session.expires_at,
       session.address, session.user_agent,
       token.name, token.role, token.tenant
     from sessions session
     join tokens token using (token_id)
     where ($1::text is null or session.token_id = $1)
       and session.session_id > $2
       and session.expires_at > $4
       and session.last_used_at > $5
       and token.revoked_at is null
       and (token.expires_at is null or token.expires_at > $4)
     order by session.session_id
     limit $3`,
    [query.token_id, query.after ?? '', query.limit + 1, query.now, query.idleCutoff],
  );
}

export const sessionWire = (row: ListedSession, own: string | null, idle_seconds: number): ConsoleSession => ({
  session_id: row.session_id,
  token_id: row.token_id,
  name: row.name,
  role: row.role as ConsoleSession['role'],
  tenant: row.tenant,
  created_at: row.created_at.toISOString(),
  last_used_at: row.last_used_at.toISOString(),
  expires_at: row.expires_at.toISOString(),
  idle_expires_at: secondsLater(row.last_used_at, idle_seconds).toISOString(),
  address: row.address,
  user_agent: row.user_agent,
  current: row.session_id === own,
});

/**
 * Deletes expired sessions and sessions of revoked or expired tokens. An idle session stays until
 * it expires.
 */
export async function deleteEndedSessions(db: Queryable, now: Date): Promise<number> {
  const rows = await db.query(
    `delete from sessions session
     using tokens token
     where token.token_id = session.token_id
       and (session.expires_at <= $1 or token.revoked_at is not null or token.expires_at <= $1)
     returning session.session_id`,
    [now],
  );
  return rows.length;
}
