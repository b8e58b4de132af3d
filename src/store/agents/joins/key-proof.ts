/** Checks that a registration was signed with the key that the instance registered with before. */
import { secondsBetween } from '../../../base/clock.ts';
import { isSignedWith } from '../../../base/credentials/ed25519.ts';
import { keyProofBody } from '../../../contract/agent/key-proof.ts';
import { canonicalJson } from '../../../contract/canonical-json.ts';
import { type KeyStanding, trustedKeyOf } from '../agent-keys/trusted-key.ts';
import type { InstanceRow } from '../instances.ts';
import type { JoinRequest } from '../join-newcomers.ts';

/** A proof is made for the request that carries it; more than this apart, it is a recording or the clock is wrong. */
const maxSkewSeconds = 300;

type KeyProof = NonNullable<JoinRequest['key_proof']>;

export type KeyProofResult =
  | { proven: true; signed_at: Date }
  | { proven: false; because: 'missing' | 'unaccepted_key' | 'wrong_key' | 'stale' | 'replayed' };

/** Over the key that the request names, so that a proof cannot be sent along with another one. */
function isSigned(request: JoinRequest, public_key: string, { signed_at, signature }: KeyProof): boolean {
  const body = keyProofBody({ ...request, agent_public_key: request.agent_public_key ?? '', signed_at });
  return isSignedWith(public_key, canonicalJson(body), signature);
}

export function checkKeyProof(
  request: JoinRequest,
  instance: KeyStanding & Pick<InstanceRow, 'key_proven_at'>,
  now: Date,
): KeyProofResult {
  const { agent_public_key, key_unproven_since, key_proven_at } = instance;
  const { key_proof } = request;
  if (!key_proof || !agent_public_key) return { proven: false, because: 'missing' };
  // A key that replaced another one without its signature may be that of a thief, until an operator accepts it.
  const trusted = trustedKeyOf(instance);
  if (!trusted || !isSigned(request, trusted, key_proof)) {
    const isInDoubt = key_unproven_since !== null && request.agent_public_key === agent_public_key;
    return { proven: false, because: isInDoubt ? 'unaccepted_key' : 'wrong_key' };
  }
  const signed_at = new Date(key_proof.signed_at);
  if (Math.abs(secondsBetween(signed_at, now)) > maxSkewSeconds) return { proven: false, because: 'stale' };
  // Each proof is newer than the last one that was accepted, so a recorded one is refused.
  if (key_proven_at && signed_at <= key_proven_at) return { proven: false, because: 'replayed' };
  return { proven: true, signed_at };
}
