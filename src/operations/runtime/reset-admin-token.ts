/** Creates a new admin token on the host, for people who have none that is accepted. */
import { stat } from 'node:fs/promises';
import { type Clock, now } from '../../base/clock.ts';
import { newSecret } from '../../base/credentials/random-secret.ts';
import { newTokenId } from '../../base/ids.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import type { Database, Transaction } from '../../store/pg/database.ts';
import {
  createToken,
  findToken,
  findTokenBySecret,
  lockAdminToken,
  revokeReplacedTokens,
  type TokenRow,
} from '../../store/rows/tokens.ts';
import { readWord, replaceFile } from './admin-token-files.ts';
import { adminTokenIdPath, adminTokenPath } from './server-start.ts';

export interface ResetPlace {
  data_dir: string;
  /** Whether the database is the one of the data directory. */
  is_embedded: boolean;
}

/**
 * Why the new token is not in `admin.token`. `environment`: the file has a token from
 * SLIPWAY_ADMIN_TOKEN that is accepted, and other replicas and programs use it too.
 */
export type Obstacle = 'no_directory' | 'other_account' | 'other_database' | 'environment' | 'write_failed';

export interface ResetToken {
  token: string;
  /** `admin.token` of the data directory. It has the new token if `obstacle` is null. */
  path: string;
  obstacle: Obstacle | null;
  /** The tokens that the new one replaces. They are revoked. */
  revoked: string[];
}

/** Returns the tokens of this database that the files of the data directory name. */
async function findFormerTokens(tx: Transaction, data_dir: string): Promise<TokenRow[]> {
  const secret = await readWord(adminTokenPath(data_dir));
  const id = await readWord(adminTokenIdPath(data_dir));
  const found = [secret && (await findTokenBySecret(tx, secret)), id && (await findToken(tx, id))];
  return found.filter((row) => typeof row === 'object' && row !== null);
}

const isAccepted = ({ revoked_at, expires_at }: TokenRow, at: Date): boolean =>
  revoked_at === null && (expires_at === null || expires_at > at);

function findObstacle(
  owner: { uid: number } | null,
  { is_embedded }: ResetPlace,
  former: TokenRow[],
  at: Date,
): Obstacle | null {
  if (owner === null) return 'no_directory';
  // Only root can give the new file to the server's account, which could not read it otherwise.
  const account = process.geteuid?.() ?? 0;
  if (account !== 0 && account !== owner.uid) return 'other_account';
  // The data directory of another installation may be in the current directory by chance.
  if (!is_embedded && former.length === 0) return 'other_database';
  if (former.some((row) => row.origin === 'environment' && isAccepted(row, at))) return 'environment';
  return null;
}

/**
 * Stores the new token before it writes the file. If the write fails, the file keeps the former
 * token, which is revoked, and the new token is only in the answer.
 */
export async function resetAdminToken(db: Database, clock: Clock, place: ResetPlace): Promise<ResetToken> {
  const { data_dir } = place;
  const path = adminTokenPath(data_dir);
  const token = newSecret('swt');
  const token_id = newTokenId(clock);
  const at = now(clock);
  const { owner, obstacle, revoked } = await db.transaction(async (tx) => {
    await lockAdminToken(tx);
    const owner = await stat(data_dir).catch(() => null);
    const former = await findFormerTokens(tx, data_dir);
    const obstacle = findObstacle(owner, place, former, at);
    const origin = obstacle === null ? 'file' : null;
    const row = { token_id, name: 'admin', role: 'admin', tenant: null, pool: null, expires_at: null } as const;
    await createToken(tx, { ...row, created_at: at, origin }, token);
    const ids = obstacle === null ? former.map((each) => each.token_id) : [];
    const revoked = await revokeReplacedTokens(tx, { ids, origins: [], keep: token_id }, at);
    const fact = { at, layer: 'operator' } as const;
    await recordEvidence(tx, [
      {
        ...fact,
        kind: 'token.created',
        summary: 'the admin token was reset on the host',
        data: { token_id, role: 'admin', origin },
      },
      ...revoked.map((id) => ({
        ...fact,
        kind: 'token.revoked' as const,
        summary: `token ${id} was revoked: a new admin token replaces it`,
        data: { token_id: id, replaced_by: token_id },
      })),
    ]);
    return { owner, obstacle, revoked };
  });
  if (obstacle !== null || owner === null) return { token, path, obstacle, revoked };
  try {
    await replaceFile(path, token, owner);
  } catch {
    return { token, path, obstacle: 'write_failed', revoked };
  }
  // The next start of the server writes a missing or outdated id again.
  await replaceFile(adminTokenIdPath(data_dir), token_id, owner).catch(() => {});
  return { token, path, obstacle, revoked };
}
