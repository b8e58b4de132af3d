/** `accept-key`: a person vouches for a key that no former key has signed. */
import { fingerprintOf } from '../../base/ed25519.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import { keyStanding, acceptKey as storeAcceptance } from '../../store/agent-keys/key-change.ts';
import { type Acting, type Action, changedMeanwhile } from './acting.ts';

async function unprovenKey({ tx, node }: Acting): Promise<{ id: NodeInstanceId; key: string; since: Date }> {
  const id = node.node_instance_id;
  const standing = id ? await keyStanding(tx, id) : undefined;
  if (!id || !standing?.agent_public_key || !standing.key_unproven_since) throw changedMeanwhile();
  return { id, key: standing.agent_public_key, since: standing.key_unproven_since };
}

export const acceptKey: Action = {
  async predict(acting) {
    const { key, since } = await unprovenKey(acting);
    const { status, deadline_at } = acting.node;
    const fingerprint = fingerprintOf(key);
    return {
      status,
      deadline_at,
      says: `what its agent signs with key ${fingerprint}, in use since ${since.toISOString()}, counts from now on`,
      data: { fingerprint },
    };
  },
  async act(acting) {
    const { id, key } = await unprovenKey(acting);
    if (!(await storeAcceptance(acting.tx, id, key))) throw changedMeanwhile();
    return undefined;
  },
};
