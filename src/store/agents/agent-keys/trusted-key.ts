/** Decides which key of an instance is trusted. */
import type { InstanceRow } from '../instances.ts';

export type KeyStanding = Pick<InstanceRow, 'agent_public_key' | 'key_unproven_since' | 'trusted_public_key'>;

/** Returns the agent's key, or the last proven key (or null) while the agent's key is unproven. */
export const trustedKeyOf = (standing: KeyStanding): string | null =>
  standing.key_unproven_since === null ? standing.agent_public_key : standing.trusted_public_key;

export const provenKey = (agent_public_key: string | null): KeyStanding => ({
  agent_public_key,
  key_unproven_since: null,
  trusted_public_key: agent_public_key,
});
