/** Creates a new admin token on the host, for people who have none that is accepted. */
import { open, readFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, now } from '../../base/clock.ts';
import { newSecret } from '../../base/credentials/random-secret.ts';
import { newTokenId } from '../../base/ids.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import type { Database } from '../../store/pg/database.ts';
import { createToken, findTokenBySecret, lockAdminToken, revokeReplacedTokens } from '../../store/rows/tokens.ts';
import { adminTokenPath } from './server-start.ts';

export interface ResetToken {
  token: string;
  /** The file that has the token now. Null if it is only in this answer. */
  path: string | null;
  /** The tokens that the new one replaces. They are revoked. */
  revoked: string[];
}

const readText = async (path: string): Promise<string | null> => {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text.trim() || null;
};

/**
 * The server may have another account than the reset, and must be able to read the file. That
 * account may write in the directory, so the file is created anew: root must not follow a planted
 * link.
 */
async function writeForServer(data_dir: string, path: string, text: string): Promise<void> {
  const { uid, gid } = await stat(data_dir);
  const draft = `${path}.${newSecret('draft')}`;
  const file = await open(draft, 'wx', 0o600);
  try {
    await file.writeFile(`${text}\n`);
    if (process.getuid?.() === 0) await file.chown(uid, gid);
  } finally {
    await file.close();
  }
  await rename(draft, path);
}

/**
 * Stores the new token before it writes the file, so that a failure never leaves a file with a
 * token that is not accepted. `data_dir` is null if no data directory belongs to the database.
 */
export async function resetAdminToken(db: Database, clock: Clock, data_dir: string | null): Promise<ResetToken> {
  const token = newSecret('swt');
  const token_id = newTokenId(clock);
  const path = data_dir === null ? null : adminTokenPath(data_dir);
  const stored = path && (await readText(path));
  const formerId = path && (await readText(`${path}.id`));
  const at = now(clock);
  const revoked = await db.transaction(async (tx) => {
    await lockAdminToken(tx);
    const row = { token_id, name: 'admin', role: 'admin', tenant: null, pool: null, expires_at: null } as const;
    await createToken(tx, { ...row, created_at: at, ...(path && { origin: 'file' }) }, token);
    const former = stored ? await findTokenBySecret(tx, stored) : undefined;
    const ids = [formerId, former?.token_id].filter((id) => typeof id === 'string');
    const replaced = await revokeReplacedTokens(tx, { ids, origins: [], keep: token_id }, at);
    const fact = { at, layer: 'operator' } as const;
    await recordEvidence(tx, [
      {
        ...fact,
        kind: 'token.created',
        summary: 'the admin token was reset on the host',
        data: { token_id, role: 'admin', origin: path ? 'file' : null },
      },
      ...replaced.map((id) => ({
        ...fact,
        kind: 'token.revoked' as const,
        summary: `token ${id} was revoked: a new admin token replaces it`,
        data: { token_id: id, replaced_by: token_id },
      })),
    ]);
    return replaced;
  });
  if (data_dir === null || path === null) return { token, path, revoked };
  try {
    await writeForServer(data_dir, path, token);
    await writeForServer(data_dir, join(data_dir, 'admin.token.id'), token_id);
    return { token, path, revoked };
  } catch {
    return { token, path: null, revoked };
  }
}
