/** Stores secrets with encrypted values. Launches, the redactors and key rotation decrypt them. */
import type { KeyRing } from '../../../base/credentials/key-ring.ts';
import type { Secret } from '../../../contract/security/secret.ts';
import type { Queryable, Transaction } from '../../pg/database.ts';
import { openSecret, type SealedSecret, sealSecret } from './seal.ts';

export interface SecretRow extends SealedSecret {
  version: number;
  created_at: Date;
  updated_at: Date;
  last_used_at: Date | null;
}

/** The use of a secret is written at most this often. */
const useIntervalSeconds = 60;

const columns = 'name, version, kid, sealed, created_at, updated_at, last_used_at';

export const listSecrets = (db: Queryable): Promise<SecretRow[]> =>
  db.query<SecretRow>(`select ${columns} from secrets order by name`);

export const readSecrets = (db: Queryable, names: readonly string[]): Promise<SecretRow[]> =>
  db.query<SecretRow>(`select ${columns} from secrets where name = any($1)`, [names]);

/**
 * Returns which of these names are stored. Locks their rows, so that no secret is deleted before
 * the transaction ends.
 */
export async function lockSecrets(tx: Transaction, names: readonly string[]): Promise<Set<string>> {
  const rows = await tx.query<{ name: string }>('select name from secrets where name = any($1) for share', [names]);
  return new Set(rows.map(({ name }) => name));
}

export async function putSecret(
  tx: Transaction,
  ring: KeyRing,
  name: string,
  value: string,
  now: Date,
): Promise<SecretRow> {
  const { kid, sealed } = sealSecret(ring, name, value);
  const [row] = await tx.query<SecretRow>(
    `insert into secrets (name, version, kid, sealed, created_at, updated_at)
     values ($1, 1, $2, $3, $4, $4)
     on conflict (name) do update
       set version = secrets.version + 1, kid = $2, sealed = $3, updated_at = $4
     returning ${columns}`,
    [name, kid, sealed, now],
  );
  return row as SecretRow;
}

export async function deleteSecret(tx: Transaction, name: string): Promise<boolean> {
  return (await tx.query('delete from secrets where name = $1 returning name', [name])).length > 0;
}

export async function recordSecretUse(db: Queryable, names: readonly string[], now: Date): Promise<void> {
  await db.query(
    `update secrets set last_used_at = $2
     where name = any($1)
       and (last_used_at is null or last_used_at < $2::timestamptz - make_interval(secs => $3))`,
    [names, now, useIntervalSeconds],
  );
}

/** SQL that is true if a document's environment names the secret. Expects the alias `secret`. */
const namesSecret = (document: string) =>
  `jsonb_path_exists(${document}, '$.spec.env.*.secret ? (@ == $name)', jsonb_build_object('name', secret.name))`;

/**
 * Reads the pools that name each secret, in the present generation or in one that live machines
 * were made from.
 */
export async function readPoolsBySecret(db: Queryable, names: readonly string[]): Promise<Map<string, string[]>> {
  const rows = await db.query<{ name: string; pools: string[] }>(
    `select secret.name, array_agg(distinct pool.name order by pool.name) as pools
     from unnest($1::text[]) as secret(name)
     join pools pool on true
     join pool_generations generation on generation.pool = pool.name
     where ${namesSecret('generation.document')}
       and (
         (pool.deleted_at is null and generation.generation = pool.generation)
         or exists (
           select from nodes node
           where node.pool = pool.name
             and node.pool_generation = generation.generation
             and node.status <> 'retired'
         )
       )
     group by secret.name`,
    [names],
  );
  return new Map(rows.map(({ name, pools }) => [name, pools]));
}

/**
 * Reads every pool that exists or still has nodes, with the secrets that its present generation or
 * a generation of these nodes names.
 */
export const readSecretsByPool = (db: Queryable): Promise<{ pool: string; secrets: string[] }[]> =>
  db.query(
    `select pool.name as pool, array_remove(array_agg(distinct named.secret #>> '{}'), null) as secrets
     from pools pool
     join pool_generations generation on generation.pool = pool.name
     left join lateral jsonb_path_query(generation.document, '$.spec.env.*.secret') as named(secret) on true
     where (pool.deleted_at is null and generation.generation = pool.generation)
       or exists (
         select from nodes node
         where node.pool = pool.name
           and node.pool_generation = generation.generation
           and node.status <> 'retired'
       )
     group by pool.name`,
  );

export interface SecretRotation {
  rotated: number;
  /** The secrets that stay as they were, because this server cannot decrypt them. */
  unreadable: string[];
}

/** Encrypts all secrets again with the current key. */
export async function rotateSecrets(tx: Transaction, ring: KeyRing): Promise<SecretRotation> {
  const rows = await tx.query<SecretRow>(`select ${columns} from secrets order by name for update`);
  const { kid } = ring.current;
  const unreadable: string[] = [];
  let rotated = 0;
  for (const row of rows) {
    const opened = openSecret(ring, row);
    if (!opened.ok) unreadable.push(row.name);
    else if (row.kid !== kid) {
      const { sealed } = sealSecret(ring, row.name, opened.value);
      await tx.query('update secrets set kid = $2, sealed = $3 where name = $1', [row.name, kid, sealed]);
      rotated++;
    }
  }
  return { rotated, unreadable };
}

export const secretWire = (row: SecretRow, ring: KeyRing, used_by: readonly string[]): Secret => ({
  name: row.name,
  version: row.version,
  kid: row.kid,
  readable: ring.byId(row.kid) !== undefined,
  created_at: row.created_at.toISOString(),
  updated_at: row.updated_at.toISOString(),
  last_used_at: row.last_used_at?.toISOString() ?? null,
  used_by: [...used_by],
});
