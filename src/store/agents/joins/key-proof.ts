/** Checks that a registration was signed with the key that the instance registered with before. */
import { isSignedWith } from '../../../base/credentials/ed25519.ts';
import { keyProofBody } from '../../../contract/agent/key-proof.ts';
import { canonicalJson } from '../../../contract/canonical-json.ts';
import { findTimeFault } from '../agent-keys/proof-time.ts';
import { type KeyStanding, trustedKeyOf } from '../agent-keys/trusted-key.ts';
import type { InstanceRow } from '../instances.ts';
import type { JoinRequest } from '../join-newcomers.ts';

type KeyProof = NonNullable<JoinRequest['key_proof']>;

export type KeyProofResult =
  | { proven: true; signed_at: Date }
  | { proven: false; because: 'missing' | 'unaccepted_key' | 'wrong_key' | 'stale' | 'replayed' };

/** The signature covers the key in the request, so a proof cannot be sent with another key. */
function isSigned(request: JoinRequest, public_key: string, { signed_at, signature }: KeyProof): boolean {
  const body = keyProofBody({ ...request, agent_public_key: request.agent_public_key ?? '', signed_at });
  return isSignedWith(public_key, canonicalJson(body), signature);
}

export function checkKeyProof(
  request: JoinRequest,
  instance: KeyStanding & Pick<InstanceRow, 'key_proven_at'>,
  now: Date,
): KeyProofResult {
  const { agent_public_key, key_unproven_since } = instance;
  const { key_proof } = request;
  if (!key_proof || !agent_public_key) return { proven: false, because: 'missing' };
  // A key without the former key's signature may be a thief's until an operator accepts it.
  const trusted = trustedKeyOf(instance);
  if (!trusted || !isSigned(request, trusted, key_proof)) {
    const isUnaccepted = key_unproven_since !== null && request.agent_public_key === agent_public_key;
    return { proven: false, because: isUnaccepted ? 'unaccepted_key' : 'wrong_key' };
  }
  const signed_at = new Date(key_proof.signed_at);
  const timeFault = findTimeFault(signed_at, instance, now);
  return timeFault ? { proven: false, because: timeFault } : { proven: true, signed_at };
}
