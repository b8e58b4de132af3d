/**
 * Issues a credential to an agent whose credential is newer than the restored backup, but whose key
 * is in the restored rows. Every other request is refused, always with the same problem.
 */
import { generateKeyPairSync } from 'node:crypto';
import { secondsLater } from '../../../base/clock.ts';
import { isSignedWith } from '../../../base/credentials/ed25519.ts';
import type { CorrelationId, NodeInstanceId } from '../../../base/ids.ts';
import type { CredentialReissue } from '../../../contract/agent/agent.ts';
import { reissueBody } from '../../../contract/agent/credential-reissue.ts';
import { canonicalJson } from '../../../contract/canonical-json.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { type RestorationRow, readNewestRestoration } from '../../backup/restorations.ts';
import { recordEvidence } from '../../evidence/evidence.ts';
import type { Database, Transaction } from '../../pg/database.ts';
import { lockNode, type NodeRow } from '../../rows/nodes.ts';
import { restoreKey } from '../agent-keys/key-change.ts';
import { findTimeFault } from '../agent-keys/proof-time.ts';
import { type KeyStanding, trustedKeyOf } from '../agent-keys/trusted-key.ts';
import { type InstanceRow, instanceRow } from '../instances.ts';
import { issueNextCredential } from './rotate.ts';

/** Agents that stay silent for longer after a restoration must enrol again. */
const maxSecondsAfterRestoration = 30 * 24 * 3600;

/** Its private key is dropped, so it verifies nothing. */
const decoyKey = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'der' }).toString('base64');

/**
 * Verifies a signature in every case, so that the time of a refusal does not show whether the
 * instance exists or has a key.
 */
export function isSignedByTrustedKey(standing: KeyStanding | undefined, request: CredentialReissue): boolean {
  const trusted = standing ? trustedKeyOf(standing) : null;
  const isSigned = isSignedWith(trusted ?? decoyKey, canonicalJson(reissueBody(request)), request.signature);
  return trusted !== null && isSigned;
}

export interface ReissueFacts {
  node: Pick<NodeRow, 'node_instance_id' | 'status'> | undefined;
  instance: InstanceRow | undefined;
  /** The newest one. */
  restoration: Pick<RestorationRow, 'began_at' | 'ended_at'> | undefined;
  /** The last heartbeat with a known credential. */
  last_seen_at: Date | null;
}

/** Whether the restore explains why the credential of this instance is not in the rows. */
export function mayReissue(
  { node, instance, restoration, last_seen_at }: ReissueFacts,
  request: CredentialReissue,
  now: Date,
): boolean {
  if (!node || !instance || !restoration || !isSignedByTrustedKey(instance, request)) return false;
  const signed_at = new Date(request.signed_at);
  if (findTimeFault(signed_at, instance, now)) return false;
  // An earlier signature may have been used before the restore, and the backup may not show that.
  if (signed_at <= restoration.began_at) return false;
  const { ended_at, began_at } = restoration;
  if (ended_at && now > secondsLater(ended_at, maxSecondsAfterRestoration)) return false;
  const { registered_at, fenced_at, revoked_at, door, credential_hash, next_credential_hash } = instance;
  // The rows of an instance that registered later are not from the backup.
  if (!registered_at || registered_at >= began_at) return false;
  if (node.status === 'retired' || node.node_instance_id !== instance.node_instance_id) return false;
  // Only our own agents have a key and a credential.
  if (fenced_at || revoked_at || door !== null || !credential_hash) return false;
  // A known credential is in use, so the machine lost none. The caller may run on a copy of the
  // machine.
  if ([instance.credential_used_at, last_seen_at].some((at) => at !== null && at >= began_at)) return false;
  // An agent whose credential is known can rotate it.
  return ![credential_hash, next_credential_hash].some((hash) => hash?.toString('hex') === request.credential_sha256);
}

async function readLastSeen(tx: Transaction, node_instance_id: NodeInstanceId): Promise<Date | null> {
  const [row] = await tx.query<{ last_seen_at: Date | null }>(
    'select last_seen_at from heartbeats where node_instance_id = $1',
    [node_instance_id],
  );
  return row?.last_seen_at ?? null;
}

export interface Reissue {
  /** Was read without a lock. The request is signed with its trusted key. */
  instance: Pick<InstanceRow, 'node_id' | 'node_instance_id'>;
  request: CredentialReissue;
  /** When the new credential expires; null if credentials never expire. */
  expires_at: Date | null;
  now: Date;
  correlation_id: CorrelationId;
}

/** The former credential stays valid until the first use of the new one, as after a rotation. */
export async function reissueCredential(db: Database, reissue: Reissue): Promise<string> {
  const { instance: found, request, expires_at, now, correlation_id } = reissue;
  const { node_id, node_instance_id } = found;
  return db.transaction(async (tx) => {
    const node = await lockNode(tx, node_id);
    const instance = await instanceRow(tx, node_instance_id, 'for update');
    const restoration = await readNewestRestoration(tx);
    const last_seen_at = await readLastSeen(tx, node_instance_id);
    if (!instance || !mayReissue({ node, instance, restoration, last_seen_at }, request, now))
      throw new ApiProblem('reissue_refused');
    await restoreKey(tx, instance, { via: 'reissue', now, correlation_id });
    const credential = await issueNextCredential(tx, node_instance_id, expires_at);
    await tx.query('update instances set key_proven_at = $2 where node_instance_id = $1', [
      node_instance_id,
      new Date(request.signed_at),
    ]);
    await recordEvidence(tx, [
      {
        at: now,
        layer: 'node',
        kind: 'credential.reissued',
        summary: 'the agent proved its key after the restore and got a new credential',
        data: { expires_at: expires_at?.toISOString() ?? null, restored_at: restoration?.began_at.toISOString() },
        node_id,
        node_instance_id,
        correlation_id,
      },
    ]);
    return credential;
  });
}
