/** Idempotency keys: the first request with a key does the work, its repeats get its answer. */
import type { Queryable } from './database.ts';

const keptSeconds = 24 * 3600;
/** A first request that never answered (its replica died) frees its key after this long. */
const abandonedSeconds = 60;

export type KeyState =
  | { state: 'new' }
  | { state: 'mismatch' }
  | { state: 'in_progress' }
  | { state: 'answered'; status: number; reply: unknown };

interface KeyRow {
  request_hash: Buffer;
  status: number | null;
  reply: unknown;
  created_at: Date;
}

export async function claimKey(
  db: Queryable,
  scope: { token_id: string; key: string },
  request_hash: Buffer,
  now: Date,
): Promise<KeyState> {
  const claimed = await db.query(
    `insert into idempotency_keys (token_id, key, request_hash, created_at) values ($1, $2, $3, $4)
     on conflict (token_id, key) do update set request_hash = $3, created_at = $4, status = null, reply = null
     where idempotency_keys.created_at < $4::timestamptz - make_interval(secs => case when idempotency_keys.status is null then $5::double precision else $6::double precision end)
     returning key`,
    [scope.token_id, scope.key, request_hash, now, abandonedSeconds, keptSeconds],
  );
  if (claimed.length > 0) return { state: 'new' };
  const [row] = await db.query<KeyRow>('select * from idempotency_keys where token_id = $1 and key = $2', [
    scope.token_id,
    scope.key,
  ]);
  if (!row) return { state: 'in_progress' };
  if (!row.request_hash.equals(request_hash)) return { state: 'mismatch' };
  return row.status === null ? { state: 'in_progress' } : { state: 'answered', status: row.status, reply: row.reply };
}

export async function keepAnswer(
  db: Queryable,
  scope: { token_id: string; key: string },
  status: number,
  reply: unknown,
): Promise<void> {
  await db.query('update idempotency_keys set status = $3, reply = $4 where token_id = $1 and key = $2', [
    scope.token_id,
    scope.key,
    status,
    JSON.stringify(reply ?? null),
  ]);
}

/** A refusal is not an answer worth keeping: the same request may succeed later. */
export async function releaseKey(db: Queryable, scope: { token_id: string; key: string }): Promise<void> {
  await db.query('delete from idempotency_keys where token_id = $1 and key = $2 and status is null', [
    scope.token_id,
    scope.key,
  ]);
}

export async function forgetOldKeys(db: Queryable, now: Date): Promise<number> {
  const rows = await db.query(
    `delete from idempotency_keys where created_at < $1::timestamptz - make_interval(secs => $2::double precision) returning key`,
    [now, keptSeconds],
  );
  return rows.length;
}
