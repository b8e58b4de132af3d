/**
 * Loads the identity of an installation, which all replicas share: its id, its secrets and the keys
 * that sign tasks.
 */
import { createHmac, randomBytes, sign, timingSafeEqual } from 'node:crypto';
import { type Clock, now as currentTime, systemClock } from '../../base/clock.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { TaskKey } from '../../contract/agent/agent.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { ServerIdentity } from '../../contract/fleet/overview.ts';
import type { EvidenceTail } from '../evidence/tail.ts';
import type { Database } from '../pg/database.ts';
import { createKeySet, listTaskKeys, type TaskKeyRow } from './task-keys/key-set.ts';
import { maintainTaskKeys, newTaskKey, type RotatedTaskKey, rotateTaskKey, storeTaskKey } from './task-keys/rotate.ts';

interface InstallationRow {
  installation_id: string;
  enrollment_secret: Buffer;
}

export interface TaskKeyPolicy {
  /** The age at which the key is rotated. 0 rotates it only on request. */
  task_key_seconds: number;
  /** How long a key is announced before it signs, and accepted after its successor signs. */
  task_key_overlap_seconds: number;
}

export const defaultTaskKeyPolicy: TaskKeyPolicy = {
  task_key_seconds: 90 * 86_400,
  task_key_overlap_seconds: 86_400,
};

export interface EnrollmentIds {
  pool: string;
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
}

export interface Installation {
  installation_id: string;
  /** The keys that agents accept now. */
  readonly task_keys: TaskKey[];
  /** Retired keys. Their endorsements link an older key that an agent knows to the present keys. */
  readonly former_task_keys: TaskKey[];
  /** How often agents fetch the keys. Several fetches fit between an announcement and first use. */
  readonly task_key_refresh_seconds: number;
  /**
   * Rotates the key. `db` may belong to a transaction of the caller (`withinTransaction`). All
   * replicas reload the keys when they read the fact of the rotation.
   */
  rotateTaskKey(db: Database, by: { actor: Actor; correlation_id: CorrelationId }): Promise<RotatedTaskKey>;
  /**
   * Rotates the key if it is due, deletes the private part of retired keys, and reloads all keys.
   * Returns the number of changed keys.
   */
  maintainTaskKeys(): Promise<number>;
  reloadTaskKeys(): Promise<void>;
  /**
   * Returns a token that is authenticated over pool, node and instance. It lets the server
   * recognize a machine that registers before the row of its instance is committed.
   */
  signEnrollmentToken(ids: EnrollmentIds): string;
  readEnrollmentToken(token: string): EnrollmentIds | undefined;
  signTask<T extends object>(unsigned: T): T & { kid: string; signature: string };
  /**
   * Signs a nonce of the client, which proves that this installation is replying now. The statement
   * cannot be used as a task, because it has none of a task's fields.
   */
  identify(nonce: string): ServerIdentity;
}

async function loadOrCreate(db: Database, now: Date): Promise<{ row: InstallationRow; keys: TaskKeyRow[] }> {
  return db.transaction(async (tx) => {
    const inserted = await tx.query(
      `insert into installation (installation_id, enrollment_secret, session_secret, created_at)
       values ($1, $2, $3, $4)
       on conflict do nothing
       returning installation_id`,
      [`slipway-${randomBytes(8).toString('hex')}`, randomBytes(32), randomBytes(32), now],
    );
    if (inserted.length > 0) await storeTaskKey(tx, newTaskKey(now));
    const [row] = await tx.query<InstallationRow>('select * from installation');
    if (!row) throw new Error('the installation has no row');
    return { row, keys: await listTaskKeys(tx) };
  });
}

const mac = (secret: Buffer, text: string) => createHmac('sha256', secret).update(text).digest('base64url');
const isEqual = (a: string, b: string) => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));

function sealWith(secret: Buffer, prefix: string, text: string): string {
  const body = Buffer.from(text).toString('base64url');
  return `${prefix}_${body}.${mac(secret, body)}`;
}

function unsealWith(secret: Buffer, prefix: string, sealed: string): string | undefined {
  const match = /^([a-z]+)_([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/.exec(sealed);
  if (!match?.[2] || !match[3] || match[1] !== prefix) return undefined;
  return isEqual(mac(secret, match[2]), match[3]) ? Buffer.from(match[2], 'base64url').toString() : undefined;
}

export async function openInstallation(
  db: Database,
  now: Date,
  clock: Clock = systemClock,
  { task_key_seconds, task_key_overlap_seconds: overlap_seconds }: TaskKeyPolicy = defaultTaskKeyPolicy,
): Promise<Installation> {
  const { row, keys: loaded } = await loadOrCreate(db, now);
  let keys = createKeySet(loaded);
  const reloadTaskKeys = async () => {
    keys = createKeySet(await listTaskKeys(db));
  };
  const signBody = <T extends object>(unsigned: T, { row: { kid }, private_key } = keys.findSigning(clock.nowMs())) => {
    const body = { ...unsigned, kid };
    return { ...body, signature: sign(null, Buffer.from(canonicalJson(body)), private_key).toString('base64') };
  };
  return {
    installation_id: row.installation_id,
    get task_keys() {
      return keys.listAccepted(clock.nowMs());
    },
    get former_task_keys() {
      return keys.listFormer(clock.nowMs());
    },
    task_key_refresh_seconds: overlap_seconds / 4,
    rotateTaskKey: (callerDb, by) => rotateTaskKey(callerDb, { now: currentTime(clock), overlap_seconds, ...by }),
    async maintainTaskKeys() {
      const changed = await maintainTaskKeys(db, { now: currentTime(clock), overlap_seconds }, task_key_seconds);
      await reloadTaskKeys();
      return changed;
    },
    reloadTaskKeys,
    signEnrollmentToken: (ids) =>
      sealWith(row.enrollment_secret, 'swe', JSON.stringify([ids.pool, ids.node_id, ids.node_instance_id])),
    readEnrollmentToken(token) {
      const text = unsealWith(row.enrollment_secret, 'swe', token);
      if (text === undefined) return undefined;
      const [pool, node_id, node_instance_id] = JSON.parse(text) as [string, NodeId, NodeInstanceId];
      return { pool, node_id, node_instance_id };
    },
    signTask: (unsigned) => signBody(unsigned),
    identify(nonce) {
      const now_ms = clock.nowMs();
      const signing = keys.findSigning(now_ms);
      const { public_key, endorsed_by, endorsement } = signing.row;
      const others = [...keys.listFormer(now_ms), ...keys.listAccepted(now_ms)].filter(
        ({ kid }) => kid !== signing.row.kid,
      );
      const statement = { service: 'slipway' as const, installation_id: row.installation_id, nonce, public_key };
      // A client that knows only an earlier key follows the endorsements to the current one.
      const links = endorsed_by && endorsement ? { endorsed_by, endorsement, other_keys: others } : {};
      return signBody({ ...statement, ...links }, signing);
    },
  };
}

/** Reloads a replica's task keys whenever any replica rotates them. */
export async function followTaskKeys(
  { reloadTaskKeys }: Pick<Installation, 'reloadTaskKeys'>,
  tail: Pick<EvidenceTail, 'subscribe' | 'whenHistoryChanged'>,
  onError: (error: unknown) => void,
): Promise<void> {
  tail.subscribe(({ kind }) => {
    if (kind === 'task_key.rotated') reloadTaskKeys().catch(onError);
  });
  tail.whenHistoryChanged(() => void reloadTaskKeys().catch(onError));
  // Another replica may have rotated the keys before the tail began.
  await reloadTaskKeys();
}
