/**
 * Rotates the key that signs tasks: announces a successor, which signs only after the overlap, so
 * that agents know it before it signs.
 */
import { createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { secondsBetween, secondsLater } from '../../../base/clock.ts';
import type { CorrelationId } from '../../../base/ids.ts';
import { endorsementText } from '../../../contract/agent/task-key-chain.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { Actor } from '../../../contract/evidence/evidence.ts';
import { recordEvidence } from '../../evidence/evidence.ts';
import type { Database, Queryable } from '../../pg/database.ts';
import { listTaskKeys, type TaskKeyRow } from './key-set.ts';

export interface RotatedTaskKey {
  kid: string;
  signs_from: Date;
  former_kid: string;
  former_accepted_until: Date;
}

export interface TaskKeyRotation {
  now: Date;
  /** How long a key is announced before it signs, and accepted after its successor signs. */
  overlap_seconds: number;
  actor?: Actor;
  correlation_id?: CorrelationId;
}

export function newTaskKey(now: Date): TaskKeyRow & { private_key: string } {
  const pair = generateKeyPairSync('ed25519');
  return {
    kid: `key_${randomBytes(6).toString('hex')}`,
    public_key: pair.publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
    private_key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    created_at: now,
    signs_from: now,
    retired_at: null,
    endorsed_by: null,
    endorsement: null,
  };
}

export const storeTaskKey = (tx: Queryable, key: TaskKeyRow): Promise<unknown> =>
  tx.query(
    `insert into signing_keys (kid, public_key, private_key, created_at, signs_from, endorsed_by, endorsement)
     values ($1, $2, $3, $4, $5, $6, $7)`,
    [key.kid, key.public_key, key.private_key, key.created_at, key.signs_from, key.endorsed_by, key.endorsement],
  );

/** Locks the installation's row, so that one replica writes keys at a time. */
async function lockNewestKey(tx: Queryable): Promise<TaskKeyRow & { private_key: string }> {
  await tx.query('select installation_id from installation for update');
  const newest = (await listTaskKeys(tx)).at(-1);
  if (!newest?.private_key) throw new Error('the installation has no key to sign tasks with');
  return { ...newest, private_key: newest.private_key };
}

async function addSuccessor(
  tx: Queryable,
  former: TaskKeyRow & { private_key: string },
  { now, overlap_seconds, actor, correlation_id }: TaskKeyRotation,
): Promise<RotatedTaskKey> {
  const successor = newTaskKey(now);
  const endorsement = sign(null, Buffer.from(endorsementText(successor)), createPrivateKey(former.private_key));
  const signs_from = secondsLater(now, overlap_seconds);
  const former_accepted_until = secondsLater(signs_from, overlap_seconds);
  await storeTaskKey(tx, {
    ...successor,
    signs_from,
    endorsed_by: former.kid,
    endorsement: endorsement.toString('base64'),
  });
  await tx.query('update signing_keys set retired_at = $2 where kid = $1', [former.kid, former_accepted_until]);
  await recordEvidence(tx, [
    {
      at: now,
      layer: actor ? 'operator' : 'rule',
      kind: 'task_key.rotated',
      summary: `task key ${successor.kid} follows ${former.kid} and signs from ${signs_from.toISOString()}`,
      data: {
        kid: successor.kid,
        signs_from: signs_from.toISOString(),
        former_kid: former.kid,
        former_accepted_until: former_accepted_until.toISOString(),
      },
      ...(actor && { actor }),
      ...(correlation_id && { correlation_id }),
    },
  ]);
  return { kid: successor.kid, signs_from, former_kid: former.kid, former_accepted_until };
}

export const rotateTaskKey = (db: Database, rotation: TaskKeyRotation): Promise<RotatedTaskKey> =>
  db.transaction(async (tx) => {
    const newest = await lockNewestKey(tx);
    if (newest.signs_from > rotation.now)
      throw new ApiProblem(
        'task_key_pending',
        `Key ${newest.kid} is announced and signs from ${newest.signs_from.toISOString()}.`,
      );
    return addSuccessor(tx, newest, rotation);
  });

/**
 * Rotates the key if it has signed for `max_age_seconds`, and deletes the private part of retired
 * keys. Returns the number of changed keys.
 */
export const maintainTaskKeys = (db: Database, rotation: TaskKeyRotation, max_age_seconds: number): Promise<number> =>
  db.transaction(async (tx) => {
    const newest = await lockNewestKey(tx);
    const isDue = max_age_seconds > 0 && secondsBetween(newest.signs_from, rotation.now) >= max_age_seconds;
    if (isDue) await addSuccessor(tx, newest, rotation);
    const cleared = await tx.query(
      `update signing_keys
       set private_key = null
       where retired_at <= $1
         and private_key is not null
       returning kid`,
      [rotation.now],
    );
    return cleared.length + (isDue ? 1 : 0);
  });
