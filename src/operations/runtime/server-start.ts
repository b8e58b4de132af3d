/** Creates the admin token and the first pool when a server starts. */
import { constants } from 'node:fs';
import { access, chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, now } from '../../base/clock.ts';
import { newSecret } from '../../base/credentials/random-secret.ts';
import { tokenWeakness } from '../../base/credentials/token-weakness.ts';
import { newTokenId } from '../../base/ids.ts';
import { SettingsError } from '../../base/settings/flag-values.ts';
import type { ServerSettings } from '../../base/settings/settings.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import type { Database } from '../../store/pg/database.ts';
import { declarePool, hasEverBeenDeclared } from '../../store/rows/pools.ts';
import {
  createToken,
  findTokenBySecret,
  lockAdminToken,
  revokeReplacedTokens,
  setTokenOrigin,
} from '../../store/rows/tokens.ts';

async function readIfExists(path: string): Promise<string | null> {
  try {
    return (await readFile(path, 'utf8')).trim() || null;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

type Origin = 'environment' | 'file' | 'unknown';

export interface AdminTokenPlace {
  data_dir: string;
  /**
   * `database_url` is null for the embedded database. No other data directory uses that database,
   * so all earlier tokens from its file or from the environment can be revoked.
   */
  settings: Pick<ServerSettings, 'admin_token' | 'database_url'>;
  log: Pick<Log, 'info' | 'warn'>;
}

/** Returns why the directory cannot be written, or null if it can. Creates it if it is missing. */
async function findWriteProblem(directory: string): Promise<string | null> {
  try {
    await mkdir(directory, { recursive: true });
    await access(directory, constants.W_OK);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export const adminTokenPath = (data_dir: string): string => join(data_dir, 'admin.token');
/** The id identifies the former token after an operator deleted the token file to get a new one. */
export const adminTokenIdPath = (data_dir: string): string => join(data_dir, 'admin.token.id');

/**
 * Where the admin token is. `environment` if the data directory does not have it because it cannot
 * be written. `revoked` and `environment_revoked` if the token from the file or the environment is
 * no longer accepted.
 */
export type AdminTokenState = 'file' | 'environment' | 'revoked' | 'environment_revoked';

/**
 * Makes the token from the environment, or else from the file, an admin token. A new token revokes
 * the one that it replaces, with its sessions. A revoked token stays revoked.
 */
export async function ensureAdminToken(db: Database, clock: Clock, place: AdminTokenPlace): Promise<AdminTokenState> {
  const { data_dir, log } = place;
  const { admin_token: configured, database_url } = place.settings;
  const path = adminTokenPath(data_dir);
  const idPath = adminTokenIdPath(data_dir);
  const [stored, formerId] = [await readIfExists(path), await readIfExists(idPath)];
  const problem = await findWriteProblem(data_dir);
  // Check before a new token is stored in the database, because nobody could read its secret.
  if (problem !== null && configured === null && stored === null)
    throw new SettingsError(
      `there is no admin token, and a new one cannot be stored in ${data_dir}: ${problem}. Set SLIPWAY_ADMIN_TOKEN, or choose a --data-dir that can be written.`,
    );
  const secret = configured ?? stored ?? newSecret('swt');
  const weakness = tokenWeakness(secret);
  if (weakness) throw new SettingsError(`The token in ${path} ${weakness}. Delete the file to get a new one.`);
  const origin: Origin = configured === null ? 'file' : 'environment';
  const at = now(clock);
  const { token_id, isValid } = await db.transaction(async (tx) => {
    await lockAdminToken(tx);
    const known = await findTokenBySecret(tx, secret);
    if (known && (known.role !== 'admin' || known.tenant !== null))
      throw new SettingsError(
        configured === null
          ? `The token in ${path} is ${known.name}, not an admin of the installation. Delete the file to get a new one.`
          : `SLIPWAY_ADMIN_TOKEN is the token ${known.name}, not an admin of the installation. Set another one.`,
      );
    if (known) {
      // A token that was copied from the file into the environment may be in use elsewhere too.
      const isCopied = known.origin === 'file' && origin === 'environment';
      if (known.origin === 'unknown' || isCopied) await setTokenOrigin(tx, known.token_id, origin);
      const isExpired = known.expires_at !== null && known.expires_at <= at;
      return { token_id: known.token_id, isValid: known.revoked_at === null && !isExpired };
    }
    const token_id = newTokenId(clock);
    await createToken(
      tx,
      { token_id, name: 'admin', role: 'admin', tenant: null, pool: null, created_at: at, expires_at: null, origin },
      secret,
    );
    const former = stored === null ? undefined : await findTokenBySecret(tx, stored);
    const ids = [formerId, former?.token_id].filter((id) => typeof id === 'string');
    const replacedOrigins: Origin[] = ['unknown', ...(configured === null ? [] : ['environment' as const])];
    const origins: Origin[] = database_url === null ? ['unknown', 'environment', 'file'] : replacedOrigins;
    const replaced = await revokeReplacedTokens(tx, { ids, origins, keep: token_id }, at);
    await recordEvidence(tx, [
      {
        at,
        layer: 'operator',
        kind: 'token.created',
        summary: replaced.length > 0 ? 'the admin token was replaced' : 'the first admin token was created',
        data: { token_id, role: 'admin', origin },
      },
      ...replaced.map((id) => ({
        at,
        layer: 'operator' as const,
        kind: 'token.revoked' as const,
        summary: `token ${id} was revoked: a new admin token replaces it`,
        data: { token_id: id, replaced_by: token_id },
      })),
    ]);
    return { token_id, isValid: true };
  });
  if (problem !== null)
    log.info({ problem }, 'the data directory cannot be written, so the admin token is not stored in it');
  // A token that is not accepted must not replace the one of `slipway admin reset-token`.
  if (problem === null && isValid && token_id !== formerId) await writeFile(idPath, `${token_id}\n`);
  if (problem === null && isValid && secret !== stored) {
    await writeFile(path, `${secret}\n`, { mode: 0o600 });
    await chmod(path, 0o600);
  }
  if (!isValid)
    log.warn(
      `The admin token was revoked or has expired, and is not accepted. For a new one, ${configured === null ? 'run slipway admin reset-token' : 'change SLIPWAY_ADMIN_TOKEN and start again'}.`,
    );
  if (!isValid) return configured === null ? 'revoked' : 'environment_revoked';
  return problem === null || secret === stored ? 'file' : 'environment';
}

/** Declares the pool `local`, so that the first allocation of a new installation has a pool. */
export async function ensureLocalPool(db: Database, clock: Clock): Promise<void> {
  const at = now(clock);
  await db.transaction(async (tx) => {
    // A pool that an operator deleted stays deleted.
    if (await hasEverBeenDeclared(tx, 'local')) return;
    await declarePool(tx, 'local', { name: 'local', driver: 'local', heartbeat: { interval_seconds: 5 } }, at);
    await recordEvidence(tx, [
      {
        at,
        layer: 'operator',
        kind: 'pool.declared',
        summary: 'pool local is at generation 1',
        data: { pool: 'local', generation: 1 },
      },
    ]);
  });
}
