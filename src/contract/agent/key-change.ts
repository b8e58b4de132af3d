/** The text that an agent's previous key signs when the agent changes keys. */

export interface KeyChangeFacts {
  node_instance_id: string;
  former_public_key: string;
  agent_public_key: string;
}

/**
 * Signed as canonical JSON. The text names both keys, so it cannot be replayed for another change.
 */
export const keyChangeBody = ({ node_instance_id, former_public_key, agent_public_key }: KeyChangeFacts) => ({
  purpose: 'slipway-key-change',
  node_instance_id,
  former_public_key,
  agent_public_key,
});
