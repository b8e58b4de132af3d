/**
 * `accept-key`: an agent's new key was not signed by its former key. A person accepts the new key
 * by its fingerprint.
 */
import { fingerprintOf } from '../../base/credentials/ed25519.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { keyStanding, acceptKey as storeAcceptance } from '../../store/agents/agent-keys/key-change.ts';
import { type Acting, type Action, changedMeanwhile } from './action.ts';

interface UnprovenKey {
  id: NodeInstanceId;
  key: string;
  fingerprint: string;
  since: Date;
}

async function readUnprovenKey({ tx, node }: Acting): Promise<UnprovenKey> {
  const id = node.node_instance_id;
  const standing = id ? await keyStanding(tx, id) : undefined;
  if (!id || !standing?.agent_public_key || !standing.key_unproven_since) throw changedMeanwhile();
  const { agent_public_key: key, key_unproven_since: since } = standing;
  return { id, key, fingerprint: fingerprintOf(key), since };
}

/** The credential's holder may have replaced the key again since the operator saw it. */
function requireSeenKey(seen: string | undefined, fingerprint: string): void {
  if (seen === fingerprint) return;
  if (seen !== undefined)
    throw changedMeanwhile(
      `The agent now signs with key ${fingerprint}, not ${seen}. Check the new key before you accept it.`,
    );
  throw new ApiProblem('invalid_request', {
    detail: `Pass the fingerprint of the key. The agent signs with ${fingerprint}; compare it with the key on the machine.`,
    errors: [{ path: '/body/fingerprint', message: 'is required to accept a key' }],
  });
}

export const acceptKey: Action = {
  async predict(acting) {
    const { fingerprint, since } = await readUnprovenKey(acting);
    const { status, deadline_at } = acting.node;
    return {
      status,
      deadline_at,
      says: `accepts key ${fingerprint}, in use since ${since.toISOString()}; its signatures count from now on`,
      fingerprint,
      data: { fingerprint },
    };
  },
  async act(acting) {
    const { id, key, fingerprint } = await readUnprovenKey(acting);
    requireSeenKey(acting.request.fingerprint, fingerprint);
    if (!(await storeAcceptance(acting.tx, id, key))) throw changedMeanwhile();
    return undefined;
  },
};
