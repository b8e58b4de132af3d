/** What makes this installation this one: its id, its secrets and the keys its tasks are signed with. Made once, shared by all replicas. */
import {
  createHmac,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  timingSafeEqual,
} from 'node:crypto';
import type { NodeId, NodeInstanceId } from '../base/ids.ts';
import type { TaskKey } from '../contract/agent.ts';
import { canonicalJson } from '../contract/canonical-json.ts';
import type { ServerIdentity } from '../contract/overview.ts';
import type { Database } from './database.ts';

interface InstallationRow {
  installation_id: string;
  enrollment_secret: Buffer;
}

interface KeyRow {
  kid: string;
  public_key: string;
  private_key: string;
}

export interface EnrollmentClaims {
  pool: string;
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
}

export interface Installation {
  installation_id: string;
  task_keys: TaskKey[];
  /** Signed over pool, node and instance, so that a machine quicker than our own record is told from a stranger. */
  enrollmentToken(claims: EnrollmentClaims): string;
  readEnrollmentToken(token: string): EnrollmentClaims | undefined;
  signTask<T extends object>(unsigned: T): T & { kid: string; signature: string };
  /** Shows that it is this installation who answers, and answers now; no task can be made of it, it has none of its fields. */
  identify(nonce: string): ServerIdentity;
}

async function loadOrCreate(db: Database, now: Date): Promise<{ row: InstallationRow; key: KeyRow }> {
  const pair = generateKeyPairSync('ed25519');
  const fresh: KeyRow = {
    kid: `key_${randomBytes(6).toString('hex')}`,
    public_key: pair.publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
    private_key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
  return db.transaction(async (tx) => {
    const made = await tx.query(
      'insert into installation (installation_id, enrollment_secret, session_secret, created_at) values ($1, $2, $3, $4) on conflict do nothing returning installation_id',
      [`slipway-${randomBytes(8).toString('hex')}`, randomBytes(32), randomBytes(32), now],
    );
    if (made.length > 0) {
      await tx.query('insert into signing_keys (kid, public_key, private_key, created_at) values ($1, $2, $3, $4)', [
        fresh.kid,
        fresh.public_key,
        fresh.private_key,
        now,
      ]);
    }
    const [row] = await tx.query<InstallationRow>('select * from installation');
    const [key] = await tx.query<KeyRow>(
      'select * from signing_keys where retired_at is null order by created_at desc limit 1',
    );
    if (!row || !key) throw new Error('the installation has no row or no signing key');
    return { row, key };
  });
}

const mac = (secret: Buffer, text: string) => createHmac('sha256', secret).update(text).digest('base64url');
const equal = (a: string, b: string) => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));

function sealWith(secret: Buffer, prefix: string, text: string): string {
  const body = Buffer.from(text).toString('base64url');
  return `${prefix}_${body}.${mac(secret, body)}`;
}

function unsealWith(secret: Buffer, prefix: string, sealed: string): string | undefined {
  const match = /^([a-z]+)_([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/.exec(sealed);
  if (!match?.[2] || !match[3] || match[1] !== prefix) return undefined;
  return equal(mac(secret, match[2]), match[3]) ? Buffer.from(match[2], 'base64url').toString() : undefined;
}

export async function openInstallation(db: Database, now: Date): Promise<Installation> {
  const { row, key } = await loadOrCreate(db, now);
  const privateKey: KeyObject = createPrivateKey(key.private_key);
  const signed = <T extends object>(unsigned: T) => {
    const body = { ...unsigned, kid: key.kid };
    return { ...body, signature: sign(null, Buffer.from(canonicalJson(body)), privateKey).toString('base64') };
  };
  return {
    installation_id: row.installation_id,
    task_keys: [{ kid: key.kid, public_key: key.public_key }],
    enrollmentToken: (claims) =>
      sealWith(row.enrollment_secret, 'swe', JSON.stringify([claims.pool, claims.node_id, claims.node_instance_id])),
    readEnrollmentToken(token) {
      const text = unsealWith(row.enrollment_secret, 'swe', token);
      if (text === undefined) return undefined;
      const [pool, node_id, node_instance_id] = JSON.parse(text) as [string, NodeId, NodeInstanceId];
      return { pool, node_id, node_instance_id };
    },
    signTask: signed,
    identify: (nonce) =>
      signed({ service: 'slipway', installation_id: row.installation_id, nonce, public_key: key.public_key }),
  };
}
