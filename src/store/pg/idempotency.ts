/**
 * Stores idempotency keys. The first request with a key does the work, and retries get its reply.
 * The key, the work and the reply are written in one transaction, so a crash leaves all of it or
 * nothing, and a concurrent retry waits for the commit.
 *
 * A reply may hold a secret that is shown once, such as a new token. It is encrypted with a key
 * derived from the idempotency key. The table has only a hash of the idempotency key, so it reveals
 * neither the key nor the reply.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import { fixedRetentionSeconds } from '../../lifecycle/limits/retention-classes.ts';
import { isLockTimeout, type Transaction } from './database.ts';

const retentionSeconds = fixedRetentionSeconds.requests;
/** How long a retry waits for the first request before it gets `in_progress`. */
const maxWait = '5s';

export interface KeyScope {
  token_id: string;
  key: string;
}

export type KeyState =
  | { state: 'new' }
  | { state: 'mismatch' }
  | { state: 'in_progress' }
  | { state: 'answered'; status: number; reply: unknown };

interface KeyRow {
  request_hash: Buffer;
  status: number;
  reply: string;
}

const hashKey = ({ token_id, key }: KeyScope) => createHash('sha256').update(`${token_id}\n${key}`).digest('base64url');
const deriveSealingKey = ({ token_id, key }: KeyScope) =>
  Buffer.from(hkdfSync('sha256', key, token_id, 'slipway idempotent answer', 32));

const ivBytes = 12;
const tagBytes = 16;

function seal(scope: KeyScope, reply: unknown): string {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv('aes-256-gcm', deriveSealingKey(scope), iv);
  const text = Buffer.concat([cipher.update(JSON.stringify(reply ?? null), 'utf8'), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), text]).toString('base64');
}

function unseal(scope: KeyScope, sealed: string): unknown {
  const bytes = Buffer.from(sealed, 'base64');
  const decipher = createDecipheriv('aes-256-gcm', deriveSealingKey(scope), bytes.subarray(0, ivBytes));
  decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes));
  const text = Buffer.concat([decipher.update(bytes.subarray(ivBytes + tagBytes)), decipher.final()]);
  return JSON.parse(text.toString('utf8'));
}

async function insertKey(tx: Transaction, scope: KeyScope, request_hash: Buffer, now: Date): Promise<boolean> {
  await tx.query(`set local lock_timeout = '${maxWait}'`);
  const inserted = await tx.query(
    `insert into idempotency_keys (token_id, key, request_hash, created_at)
     values ($1, $2, $3, $4)
     on conflict (token_id, key) do update
       set request_hash = $3, created_at = $4, status = null, reply = null
       -- An expired key can be used again.
       where idempotency_keys.created_at < $4::timestamptz - make_interval(secs => $5)
     returning key`,
    [scope.token_id, hashKey(scope), request_hash, now, retentionSeconds],
  );
  await tx.query('set local lock_timeout = 0');
  return inserted.length > 0;
}

/**
 * Reserves a new key and stores the first hash with it. For a known key, the request is the same if
 * the stored hash is any of the hashes.
 */
export async function reserveKey(
  tx: Transaction,
  scope: KeyScope,
  hashes: readonly [Buffer, ...Buffer[]],
  now: Date,
): Promise<KeyState> {
  try {
    if (await insertKey(tx, scope, hashes[0], now)) return { state: 'new' };
  } catch (error) {
    if (isLockTimeout(error)) return { state: 'in_progress' };
    throw error;
  }
  const [row] = await tx.query<KeyRow>(
    'select request_hash, status, reply from idempotency_keys where token_id = $1 and key = $2',
    [scope.token_id, hashKey(scope)],
  );
  if (!row) return { state: 'in_progress' };
  if (!hashes.some((hash) => row.request_hash.equals(hash))) return { state: 'mismatch' };
  return { state: 'answered', status: row.status, reply: unseal(scope, row.reply) };
}

/** Stores the reply. Call this in the transaction that reserved the key and did the work. */
export async function storeReply(tx: Transaction, scope: KeyScope, status: number, reply: unknown): Promise<void> {
  await tx.query('update idempotency_keys set status = $3, reply = $4 where token_id = $1 and key = $2', [
    scope.token_id,
    hashKey(scope),
    status,
    JSON.stringify(seal(scope, reply)),
  ]);
}
