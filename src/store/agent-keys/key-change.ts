/**
 * The key with which an agent signs its proofs, and how it may change. The former key signs a change; one without that
 * signature is taken too, since the machine may have lost its key, but its proofs count only after an operator accepted it.
 */
import { fingerprintOf, isSignedWith } from '../../base/ed25519.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { RegisterRequest } from '../../contract/agent.ts';
import { canonicalJson } from '../../contract/canonical-json.ts';
import { keyChangeBody } from '../../contract/key-change.ts';
import type { Queryable, Transaction } from '../database.ts';
import { recordEvidence } from '../evidence.ts';
import type { InstanceRow } from '../instances.ts';

export type KeyStanding = Pick<InstanceRow, 'agent_public_key' | 'key_unproven_since'>;

/** The instance whose key the request continues or replaces: itself, or the former one of a machine that joined again. */
export type FormerKey = KeyStanding & Pick<InstanceRow, 'node_instance_id' | 'registered_at'>;

/** How the agent showed who it is. */
type Via = 'credential' | 'enrollment_token' | 'join_token';

interface Changing {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  former: FormerKey;
  via: Via;
  now: Date;
  correlation_id: CorrelationId;
}

function isSignedByFormer(former: FormerKey, agent_public_key: string, request: RegisterRequest): boolean {
  const { agent_public_key: former_public_key, node_instance_id } = former;
  const { key_change } = request;
  if (!former_public_key || !key_change) return false;
  const body = keyChangeBody({ node_instance_id, former_public_key, agent_public_key });
  return isSignedWith(former_public_key, canonicalJson(body), key_change.signature);
}

/**
 * An enrolment token may be used again until its credential is, by an agent that lost everything before its first call.
 * Before a tenant has had the machine, its key is as good as the first one.
 */
async function hasServed(tx: Transaction, node_id: NodeId): Promise<boolean> {
  const rows = await tx.query(
    `select 1 from allocations
     where node_id = $1 and active_at is not null and status <> 'released'
     limit 1`,
    [node_id],
  );
  return rows.length > 0;
}

const words = (proven: boolean, former: string | null) => {
  if (proven) return 'its agent signs with another key now; the former key signed the change';
  return former
    ? 'its agent signs with another key now, and the former key did not sign the change'
    : 'its agent signs with a key now; it registered without one before';
};

/** The key to store with the registration; a change of it is recorded. */
export async function changeKey(tx: Transaction, request: RegisterRequest, changing: Changing): Promise<KeyStanding> {
  const { former, now, via, node_id, node_instance_id, correlation_id } = changing;
  const { agent_public_key: former_key, key_unproven_since } = former;
  const kept = { agent_public_key: former_key, key_unproven_since };
  const agent_public_key = request.agent_public_key ?? former_key;
  if (agent_public_key === null || agent_public_key === former_key) return kept;
  if (former.registered_at === null) return { agent_public_key, key_unproven_since: null };
  const proven = isSignedByFormer(former, agent_public_key, request);
  const harmless = !proven && via === 'enrollment_token' && !(await hasServed(tx, node_id));
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'node',
      kind: 'credential.key_changed',
      summary: words(proven, former_key),
      data: {
        proven,
        needs_acceptance: !proven && !harmless,
        via,
        former_fingerprint: former_key && fingerprintOf(former_key),
        fingerprint: fingerprintOf(agent_public_key),
      },
      node_id,
      node_instance_id,
      correlation_id,
    },
  ]);
  // A signature by a key that is itself unproven proves nothing.
  return { agent_public_key, key_unproven_since: proven || harmless ? key_unproven_since : now };
}

export async function keyStanding(db: Queryable, id: NodeInstanceId): Promise<KeyStanding | undefined> {
  const [row] = await db.query<KeyStanding>(
    'select agent_public_key, key_unproven_since from instances where node_instance_id = $1',
    [id],
  );
  return row;
}

/** An operator vouches for the key that the agent signs with now. */
export async function acceptKey(tx: Transaction, id: NodeInstanceId, agent_public_key: string): Promise<boolean> {
  const rows = await tx.query(
    `update instances set key_unproven_since = null
     where node_instance_id = $1
       and agent_public_key = $2
       and key_unproven_since is not null
     returning node_instance_id`,
    [id, agent_public_key],
  );
  return rows.length > 0;
}
