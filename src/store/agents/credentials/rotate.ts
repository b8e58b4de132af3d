/** Issues a new credential; the current one stays valid until the first use of the new one. */
import { fingerprintOf, isSignedWith } from '../../../base/credentials/ed25519.ts';
import { hashSecret, newSecret } from '../../../base/credentials/random-secret.ts';
import type { CorrelationId, NodeInstanceId } from '../../../base/ids.ts';
import { rotationBody } from '../../../contract/agent/credential-rotation.ts';
import { canonicalJson } from '../../../contract/canonical-json.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { recordEvidence } from '../../evidence/evidence.ts';
import type { Database, Transaction } from '../../pg/database.ts';
import { restoreKey } from '../agent-keys/key-change.ts';
import { trustedKeyOf } from '../agent-keys/trusted-key.ts';
import { type InstanceRow, instanceRow } from '../instances.ts';

export interface Rotation {
  node_instance_id: NodeInstanceId;
  /** The credential that the caller sent. */
  credential: string;
  signature: string | undefined;
  /** When the new credential expires; null if credentials never expire. */
  expires_at: Date | null;
  now: Date;
  correlation_id: CorrelationId;
}

/**
 * Refuses a rotation without the agent's signature, so that a thief cannot renew a stolen
 * credential. An agent without a key, or with a credential that never expires, may rotate without a
 * signature.
 */
function refuseUnsigned(instance: InstanceRow, { credential, signature }: Rotation): void {
  const { agent_public_key, credential_expires_at, key_unproven_since, node_instance_id } = instance;
  if (!agent_public_key || (!credential_expires_at && signature === undefined)) return;
  const text = canonicalJson(rotationBody({ node_instance_id, credential }));
  const isSignedBy = (key: string | null) => Boolean(key && signature && isSignedWith(key, text, signature));
  if (isSignedBy(trustedKeyOf(instance))) return;
  if (key_unproven_since && isSignedBy(agent_public_key))
    throw new ApiProblem(
      'rotation_unsigned',
      `Key ${fingerprintOf(agent_public_key)} replaced the former key without its signature, and no operator has accepted it.`,
    );
  throw new ApiProblem('rotation_unsigned');
}

/**
 * Issues the next credential. Its first use voids the current one. Another call before that first
 * use replaces it.
 */
export async function issueNextCredential(
  tx: Transaction,
  node_instance_id: NodeInstanceId,
  expires_at: Date | null,
): Promise<string> {
  const credential = newSecret('swc');
  await tx.query(
    `update instances
     set next_credential_hash = $2,
       next_credential_expires_at = $3
     where node_instance_id = $1`,
    [node_instance_id, hashSecret(credential), expires_at],
  );
  return credential;
}

export async function rotateCredential(db: Database, rotation: Rotation): Promise<string> {
  const { node_instance_id, expires_at, now, correlation_id } = rotation;
  return db.transaction(async (tx) => {
    const instance = await instanceRow(tx, node_instance_id, 'for update');
    const sentHash = hashSecret(rotation.credential);
    // Another call may have used the new credential after this call was authenticated.
    if (!instance?.credential_hash?.equals(sentHash)) throw new ApiProblem('credential_unknown');
    refuseUnsigned(instance, rotation);
    if (rotation.signature) await restoreKey(tx, instance, { via: 'rotation', now, correlation_id });
    const credential = await issueNextCredential(tx, node_instance_id, expires_at);
    await recordEvidence(tx, [
      {
        at: now,
        layer: 'node',
        kind: 'credential.rotated',
        summary: 'the agent asked for a new credential',
        data: { expires_at: expires_at?.toISOString() ?? null },
        node_id: instance.node_id,
        node_instance_id,
        correlation_id,
      },
    ]);
    return credential;
  });
}
