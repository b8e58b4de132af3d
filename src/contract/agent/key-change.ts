/** What the former key of an agent signs when the agent changes to another key. */

export interface KeyChangeFacts {
  node_instance_id: string;
  former_public_key: string;
  agent_public_key: string;
}

/** Signed as canonical JSON. It names both keys, so a recorded one serves for nothing but the change it was made for. */
export const keyChangeBody = ({ node_instance_id, former_public_key, agent_public_key }: KeyChangeFacts) => ({
  purpose: 'slipway-key-change',
  node_instance_id,
  former_public_key,
  agent_public_key,
});
