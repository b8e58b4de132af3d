/** Which key of an instance counts. */
import type { InstanceRow } from '../instances.ts';

export type KeyStanding = Pick<InstanceRow, 'agent_public_key' | 'key_unproven_since' | 'trusted_public_key'>;

/** The agent's key, or while that is in doubt the last one that was proven; null where none ever was. */
export const trustedKeyOf = (standing: KeyStanding): string | null =>
  standing.key_unproven_since === null ? standing.agent_public_key : standing.trusted_public_key;

export const provenKey = (agent_public_key: string | null): KeyStanding => ({
  agent_public_key,
  key_unproven_since: null,
  trusted_public_key: agent_public_key,
});
