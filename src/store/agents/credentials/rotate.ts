/** Gives an instance a new credential; the present one holds until the new one is first used. */
import { fingerprintOf, isSignedWith } from '../../../base/credentials/ed25519.ts';
import { hashSecret, newSecret } from '../../../base/credentials/random-secret.ts';
import type { CorrelationId, NodeInstanceId } from '../../../base/ids.ts';
import { rotationBody } from '../../../contract/agent/credential-rotation.ts';
import { canonicalJson } from '../../../contract/canonical-json.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { recordEvidence } from '../../evidence/evidence.ts';
import type { Database } from '../../pg/database.ts';
import { restoreKey } from '../agent-keys/key-change.ts';
import { trustedKeyOf } from '../agent-keys/trusted-key.ts';
import { type InstanceRow, instanceRow } from '../instances.ts';

export interface Rotation {
  node_instance_id: NodeInstanceId;
  /** The credential that the caller showed. */
  credential: string;
  signature: string | undefined;
  /** Of the new credential; null where credentials do not age. */
  expires_at: Date | null;
  now: Date;
  correlation_id: CorrelationId;
}

/**
 * A credential that ages is renewed by the agent's key alone, so that a stolen one ends with its lifetime. Agents without a
 * key, and those that never said that they rotate, are known by the credential.
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

export async function rotateCredential(db: Database, rotation: Rotation): Promise<string> {
  const { node_instance_id, expires_at, now, correlation_id } = rotation;
  return db.transaction(async (tx) => {
    const instance = await instanceRow(tx, node_instance_id, 'for update');
    const shown = hashSecret(rotation.credential);
    // Another call may have put the new credential to use since this one was let in.
    if (!instance?.credential_hash?.equals(shown)) throw new ApiProblem('credential_unknown');
    refuseUnsigned(instance, rotation);
    if (rotation.signature) await restoreKey(tx, instance, { via: 'rotation', now, correlation_id });
    const credential = newSecret('swc');
    await tx.query(
      `update instances set next_credential_hash = $2, next_credential_expires_at = $3
       where node_instance_id = $1`,
      [node_instance_id, hashSecret(credential), expires_at],
    );
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
