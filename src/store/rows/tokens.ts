/**
 * Stores tokens of people and programs, and join tokens. Only hashes are stored, so a secret can be
 * shown only when it is created.
 */
import { hashSecret } from '../../base/credentials/random-secret.ts';
import type { TokenId } from '../../base/ids.ts';
import type { JoinToken } from '../../contract/pool.ts';
import type { Token, TokenRole } from '../../contract/security/token.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { ofAllTenants } from '../visibility.ts';

/** Prefixes of token secrets. */
export const tokenPrefix = 'swt';
export const relayPrefix = 'swr';

export interface TokenRow {
  token_id: TokenId;
  name: string;
  role: TokenRole;
  tenant: string | null;
  /** For a relay: the pool of the machines that it serves. */
  pool: string | null;
  created_at: Date;
  expires_at: Date | null;
  revoked_at: Date | null;
  /** Set only for the server's own admin tokens; see `operations/runtime/server-start.ts`. */
  origin: string | null;
}

type ListedToken = Omit<TokenRow, 'origin'> & { last_used_at: Date | null };

export const tokenWire = (row: ListedToken): Token => ({
  token_id: row.token_id,
  name: row.name,
  role: row.role,
  tenant: row.tenant,
  pool: row.pool,
  created_at: row.created_at.toISOString(),
  expires_at: row.expires_at?.toISOString() ?? null,
  last_used_at: row.last_used_at?.toISOString() ?? null,
});

/** Whether the database has the table of tokens, which the first start of a server creates. */
export async function hasTokens(db: Queryable): Promise<boolean> {
  const [row] = await db.query<{ tokens: string | null }>(`select to_regclass('tokens')::text as tokens`);
  return row?.tokens != null;
}

export async function createToken(
  db: Queryable,
  fresh: Omit<TokenRow, 'revoked_at' | 'origin'> & { origin?: string | null },
  secret: string,
): Promise<void> {
  await db.query(
    `insert into tokens (token_id, name, secret_hash, role, tenant, pool, created_at, expires_at, origin)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      fresh.token_id,
      fresh.name,
      hashSecret(secret),
      fresh.role,
      fresh.tenant,
      fresh.pool,
      fresh.created_at,
      fresh.expires_at,
      fresh.origin ?? null,
    ],
  );
}

export async function findToken(db: Queryable, id: string): Promise<TokenRow | undefined> {
  return (await db.query<TokenRow>('select * from tokens where token_id = $1', [id]))[0];
}

export async function findTokenBySecret(db: Queryable, secret: string): Promise<TokenRow | undefined> {
  return (
    await db.query<TokenRow>('select * from tokens where secret_hash = $1', [hashSecret(secret)], { prepared: true })
  )[0];
}

export async function listTokens(db: Queryable): Promise<Token[]> {
  const rows = await db.query<ListedToken>(
    `select token.*, used.last_used_at
     from tokens token
       left join token_uses used on used.token_id = token.token_id
     where token.revoked_at is null
     order by token.token_id`,
  );
  return rows.map(tokenWire);
}

/**
 * Whether the token is an admin of the installation and no other admin token would stay. A token
 * that expires does not count as another, because no admin token would be left after its end.
 */
export async function isLastAdminToken(tx: Transaction, id: string, now: Date): Promise<boolean> {
  const [admins] = await tx.query<{ is_admin: boolean | null; has_other: boolean | null }>(
    `select
       bool_or(token_id = $2) as is_admin,
       bool_or(token_id <> $2 and expires_at is null) as has_other
     from tokens
     where role = 'admin'
       and ${ofAllTenants('tokens')}
       and revoked_at is null
       and (expires_at is null or expires_at > $1)`,
    [now, id],
  );
  return admins?.is_admin === true && admins.has_other !== true;
}

export async function revokeToken(db: Queryable, id: string, now: Date): Promise<boolean> {
  const rows = await db.query(
    'update tokens set revoked_at = $2 where token_id = $1 and revoked_at is null returning token_id',
    [id, now],
  );
  return rows.length > 0;
}

/**
 * Serializes concurrent starts of replicas, which would otherwise create the same token twice, and
 * revocations, which could otherwise revoke the last two admin tokens at once.
 */
const adminTokenLock = 7_100_036;

export async function lockAdminToken(tx: Transaction): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1)', [adminTokenLock]);
}

/**
 * Revokes the server's own tokens with these ids or origins, except the token `keep`. Returns the
 * ids of the revoked tokens.
 */
export async function revokeReplacedTokens(
  tx: Transaction,
  { ids, origins, keep }: { ids: string[]; origins: string[]; keep: string },
  now: Date,
): Promise<string[]> {
  const rows = await tx.query<{ token_id: string }>(
    `update tokens set revoked_at = $4
     where origin is not null
       and (token_id = any($1) or origin = any($2))
       and token_id <> $3
       and revoked_at is null
     returning token_id`,
    [ids, origins, keep, now],
  );
  return rows.map(({ token_id }) => token_id);
}

export async function setTokenOrigin(tx: Transaction, id: string, origin: string): Promise<void> {
  await tx.query('update tokens set origin = $2 where token_id = $1', [id, origin]);
}

export interface JoinTokenRow {
  token_id: TokenId;
  pool: string;
  expires_at: Date | null;
  max_uses: number | null;
  uses: number;
  created_at: Date;
  revoked_at: Date | null;
}

export const joinTokenWire = (row: JoinTokenRow): JoinToken => ({
  token_id: row.token_id,
  pool: row.pool,
  expires_at: row.expires_at?.toISOString() ?? null,
  max_uses: row.max_uses,
  uses: row.uses,
  created_at: row.created_at.toISOString(),
});

export async function createJoinToken(
  db: Queryable,
  fresh: Omit<JoinTokenRow, 'uses' | 'revoked_at'>,
  secret: string,
): Promise<void> {
  await db.query(
    `insert into join_tokens (token_id, pool, secret_hash, expires_at, max_uses, created_at)
     values ($1, $2, $3, $4, $5, $6)`,
    [fresh.token_id, fresh.pool, hashSecret(secret), fresh.expires_at, fresh.max_uses, fresh.created_at],
  );
}

export async function findJoinTokenBySecret(db: Queryable, secret: string): Promise<JoinTokenRow | undefined> {
  return (
    await db.query<JoinTokenRow>('select * from join_tokens where secret_hash = $1', [hashSecret(secret)], {
      prepared: true,
    })
  )[0];
}

export async function readJoinToken(db: Queryable, id: TokenId): Promise<JoinTokenRow | undefined> {
  return (await db.query<JoinTokenRow>('select * from join_tokens where token_id = $1', [id]))[0];
}

/**
 * Spends uses of a join token. Returns false if too few are left or the token is revoked. Call this
 * last in the transaction: it locks the token's row, and a whole rack may join with one token.
 */
export async function spendJoinToken(tx: Transaction, id: TokenId, uses: number): Promise<boolean> {
  const rows = await tx.query(
    `update join_tokens
     set uses = uses + $2
     where token_id = $1
       and revoked_at is null
       and (max_uses is null or uses + $2 <= max_uses)
     returning token_id`,
    [id, uses],
    { prepared: true },
  );
  return rows.length > 0;
}

export async function listJoinTokens(db: Queryable, pool: string): Promise<JoinToken[]> {
  return (
    await db.query<JoinTokenRow>('select * from join_tokens where pool = $1 and revoked_at is null order by token_id', [
      pool,
    ])
  ).map(joinTokenWire);
}

export async function revokeJoinToken(db: Queryable, pool: string, id: string, now: Date): Promise<boolean> {
  const rows = await db.query(
    `update join_tokens
     set revoked_at = $3
     where pool = $1
       and token_id = $2
       and revoked_at is null
     returning token_id`,
    [pool, id, now],
  );
  return rows.length > 0;
}
