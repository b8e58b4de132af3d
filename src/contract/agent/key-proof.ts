/** The text that an agent signs to prove that it registered under its name before. */
import { createHash } from 'node:crypto';

export interface KeyProofFacts {
  name: string;
  join_token: string;
  agent_public_key: string;
  base_url?: string | undefined;
  signed_at: string;
}

/**
 * Signed as canonical JSON with the agent's Ed25519 key. The digest of the join token binds the
 * proof to one installation and pool. The server accepts a proof only once, and only near
 * `signed_at`.
 */
export const keyProofBody = ({ name, join_token, agent_public_key, base_url, signed_at }: KeyProofFacts) => ({
  purpose: 'slipway-register',
  name,
  join_token_sha256: createHash('sha256').update(join_token).digest('hex'),
  agent_public_key,
  base_url: base_url ?? null,
  signed_at,
});
