/** What a first start leaves behind: an admin token in a file that only its owner reads, and a pool to try. */
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Clock, now } from '../base/clock.ts';
import { newTokenId } from '../base/ids.ts';
import type { Database } from '../store/database.ts';
import { recordEvidence } from '../store/evidence.ts';
import { newSecret } from '../store/instances.ts';
import { declarePool, everDeclared } from '../store/pools.ts';
import { createToken, tokenBySecret } from '../store/tokens.ts';

async function readIfThere(path: string): Promise<string | null> {
  try {
    return (await readFile(path, 'utf8')).trim() || null;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

/** The token of the file (or of the environment) is an admin's. The secret itself goes nowhere else. */
export async function ensureAdminToken(db: Database, clock: Clock, path: string, given: string | null): Promise<void> {
  const kept = await readIfThere(path);
  const secret = given ?? kept ?? newSecret('swt');
  if (secret !== kept) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, `${secret}\n`, { mode: 0o600 });
    await chmod(path, 0o600);
  }
  const at = now(clock);
  await db.transaction(async (tx) => {
    if (await tokenBySecret(tx, secret)) return;
    const token_id = newTokenId(clock);
    await createToken(
      tx,
      { token_id, name: 'admin', role: 'admin', tenant: null, pool: null, created_at: at, expires_at: null },
      secret,
    );
    await recordEvidence(tx, [
      {
        at,
        layer: 'operator',
        kind: 'token.created',
        summary: 'the first admin token was made',
        data: { token_id, role: 'admin' },
      },
    ]);
  });
}

/** A pool named after its driver, so that a newcomer's first allocation has somewhere to go. Never overwrites one. */
export async function ensureLocalPool(db: Database, clock: Clock): Promise<void> {
  const at = now(clock);
  await db.transaction(async (tx) => {
    // One that an operator deleted stays deleted.
    if (await everDeclared(tx, 'local')) return;
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
