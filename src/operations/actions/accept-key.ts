/**
 * `accept-key`: an agent's new key was not signed by its former key. A person accepts the new key
 * by its fingerprint.
 */
import { fingerprintOf } from '../../base/credentials/ed25519.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { readKeyStanding, acceptKey as storeAcceptance } from '../../store/agents/agent-keys/key-change.ts';
import { type Action, type ActionContext, changedError } from './action.ts';

interface UnprovenKey {
  id: NodeInstanceId;
  key: string;
  fingerprint: string;
  since: Date;
}

async function readUnprovenKey({ tx, node }: ActionContext): Promise<UnprovenKey> {
  const id = node.node_instance_id;
  const standing = id ? await readKeyStanding(tx, id) : undefined;
  if (!id || !standing?.agent_public_key || !standing.key_unproven_since) throw changedError();
  const { agent_public_key: key, key_unproven_since: since } = standing;
  return { id, key, fingerprint: fingerprintOf(key), since };
}

/** The credential's holder may have replaced the key again since the operator saw it. */
function requireSeenKey(seenFingerprint: string | undefined, fingerprint: string): void {
  if (seenFingerprint === fingerprint) return;
  if (seenFingerprint !== undefined)
    throw changedError(
      `The agent now signs with key ${fingerprint}, not ${seenFingerprint}. Check the new key before you accept it.`,
    );
  throw new ApiProblem('invalid_request', {
    detail: `Pass the fingerprint of the key. The agent signs with ${fingerprint}; compare it with the key on the machine.`,
    errors: [{ path: '/body/fingerprint', message: 'is required to accept a key' }],
  });
}

export const acceptKey: Action = {
  async predict(context) {
    const { fingerprint, since } = await readUnprovenKey(context);
    const { status, deadline_at } = context.node;
    return {
      status,
      deadline_at,
      says: `accepts key ${fingerprint}, in use since ${since.toISOString()}; proofs signed with it are accepted from now on`,
      fingerprint,
      data: { fingerprint },
    };
  },
  async act(context) {
    const { id, key, fingerprint } = await readUnprovenKey(context);
    requireSeenKey(context.request.fingerprint, fingerprint);
    if (!(await storeAcceptance(context.tx, id, key))) throw changedError();
    return undefined;
  },
};
