/**
 * The key with which an agent signs its proofs, and how it may change. The former key signs a change; one without that
 * signature is taken too, since the machine may have lost its key, but its proofs count only after an operator accepted it.
 * Until then the last proven key is kept: its signatures count, and with the first one it is the agent's key again.
 */
import { fingerprintOf, isSignedWith } from '../../../base/credentials/ed25519.ts';
import type { CorrelationId, NodeId, NodeInstanceId } from '../../../base/ids.ts';
import type { RegisterRequest } from '../../../contract/agent/agent.ts';
import { keyChangeBody } from '../../../contract/agent/key-change.ts';
import { canonicalJson } from '../../../contract/canonical-json.ts';
import { recordEvidence } from '../../evidence/evidence.ts';
import type { Queryable, Transaction } from '../../pg/database.ts';
import type { InstanceRow } from '../instances.ts';
import { type KeyStanding, provenKey, trustedKeyOf } from './trusted-key.ts';

/** The instance whose key the request continues or replaces: itself, or the former one of a machine that joined again. */
export type FormerKey = KeyStanding & Pick<InstanceRow, 'node_instance_id' | 'registered_at'>;

/** How the agent showed who it is. */
type Via = 'credential' | 'enrollment_token' | 'join_token' | 'rotation' | 'key_proof';

interface Changing {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  former: FormerKey;
  via: Via;
  now: Date;
  correlation_id: CorrelationId;
}

function isSignedBy(trusted: string | null, former: FormerKey, key: string, request: RegisterRequest): boolean {
  const { key_change } = request;
  if (!trusted || !key_change) return false;
  const { node_instance_id } = former;
  const body = keyChangeBody({ node_instance_id, former_public_key: trusted, agent_public_key: key });
  return isSignedWith(trusted, canonicalJson(body), key_change.signature);
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

type Change = 'signed' | 'restored' | 'harmless' | 'unproven';

function wordsOf(change: Change, former: string | null): string {
  if (change === 'signed') return 'its agent signs with another key now; the former key signed the change';
  if (change === 'restored') return 'its agent signs with its last proven key again';
  return former
    ? 'its agent signs with another key now, and the former key did not sign the change'
    : 'its agent signs with a key now; it registered without one before';
}

const recordChange = (
  tx: Transaction,
  change: Change,
  { former, to }: { former: string | null; to: string },
  { now, via, node_id, node_instance_id, correlation_id }: Omit<Changing, 'former'>,
): Promise<void> =>
  recordEvidence(tx, [
    {
      at: now,
      layer: 'node',
      kind: 'credential.key_changed',
      summary: wordsOf(change, former),
      data: {
        proven: change === 'signed' || change === 'restored',
        needs_acceptance: change === 'unproven',
        via,
        former_fingerprint: former && fingerprintOf(former),
        fingerprint: fingerprintOf(to),
      },
      node_id,
      node_instance_id,
      correlation_id,
    },
  ]);

async function judgeChange(
  tx: Transaction,
  request: RegisterRequest,
  { former, via, node_id }: Changing,
  key: string,
): Promise<Change> {
  const trusted = trustedKeyOf(former);
  // Only its own signatures count from now on, so the last proven key needs none to come back.
  if (key === trusted) return 'restored';
  // A signature by a key that is itself in doubt proves nothing.
  if (isSignedBy(trusted, former, key, request)) return 'signed';
  const isEarly = via === 'enrollment_token' && former.key_unproven_since === null && !(await hasServed(tx, node_id));
  return isEarly ? 'harmless' : 'unproven';
}

/** The key to store with the registration; a change of it is recorded. */
export async function changeKey(tx: Transaction, request: RegisterRequest, changing: Changing): Promise<KeyStanding> {
  const { former, now } = changing;
  const { agent_public_key: former_key, key_unproven_since } = former;
  const trusted_public_key = trustedKeyOf(former);
  const key = request.agent_public_key ?? former_key;
  if (key === null || key === former_key)
    return { agent_public_key: former_key, key_unproven_since, trusted_public_key };
  if (former.registered_at === null) return provenKey(key);
  const change = await judgeChange(tx, request, changing, key);
  await recordChange(tx, change, { former: former_key, to: key }, changing);
  return change === 'unproven'
    ? { agent_public_key: key, key_unproven_since: now, trusted_public_key }
    : provenKey(key);
}

/** The agent signed with its last proven key: the key that was put in its place is dropped. */
export async function restoreKey(
  tx: Transaction,
  instance: InstanceRow,
  context: Pick<Changing, 'via' | 'now' | 'correlation_id'>,
): Promise<void> {
  const { agent_public_key, trusted_public_key, key_unproven_since, node_id, node_instance_id } = instance;
  if (!key_unproven_since || !trusted_public_key) return;
  await tx.query(
    `update instances set agent_public_key = trusted_public_key, key_unproven_since = null
     where node_instance_id = $1`,
    [node_instance_id],
  );
  const change = { former: agent_public_key, to: trusted_public_key };
  await recordChange(tx, 'restored', change, { ...context, node_id, node_instance_id });
}

export async function keyStanding(db: Queryable, id: NodeInstanceId): Promise<KeyStanding | undefined> {
  const [row] = await db.query<KeyStanding>(
    'select agent_public_key, key_unproven_since, trusted_public_key from instances where node_instance_id = $1',
    [id],
  );
  return row;
}

/** An operator vouches for the key. */
export async function acceptKey(tx: Transaction, id: NodeInstanceId, agent_public_key: string): Promise<boolean> {
  const rows = await tx.query(
    `update instances set key_unproven_since = null, trusted_public_key = agent_public_key
     where node_instance_id = $1
       and agent_public_key = $2
       and key_unproven_since is not null
     returning node_instance_id`,
    [id, agent_public_key],
  );
  return rows.length > 0;
}
