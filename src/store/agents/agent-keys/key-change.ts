/**
 * Changes the key with which an agent signs its proofs. A new key that the former key signed is
 * proven. The machine may have lost its former key, so a key without that signature is stored too,
 * but its proofs count only after an operator accepts it. Until then the last proven key stays
 * valid, and becomes the key of the agent again when the agent signs with it.
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

/** The key of the instance, or of the former instance of a machine that joined again. */
export type FormerKey = KeyStanding & Pick<InstanceRow, 'node_instance_id' | 'registered_at'>;

/** How the agent authenticated. */
type Via = 'credential' | 'enrollment_token' | 'join_token' | 'rotation' | 'reissue' | 'key_proof';

interface KeyChange {
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
 * Returns whether an unreleased allocation of the machine has been active. Before that, an agent
 * that lost its state may enrol again with a new key, which is trusted like a first key.
 */
async function hasServed(tx: Transaction, node_id: NodeId): Promise<boolean> {
  const rows = await tx.query(
    `select 1
     from allocations
     where node_id = $1
       and active_at is not null
       and status <> 'released'
     limit 1`,
    [node_id],
  );
  return rows.length > 0;
}

type Change = 'signed' | 'restored' | 'harmless' | 'unproven';

function summaryOf(change: Change, former: string | null): string {
  if (change === 'signed') return 'the agent now signs with another key; the former key signed the change';
  if (change === 'restored') return 'the agent signs with its last proven key again';
  return former
    ? 'the agent now signs with another key, and the former key did not sign the change'
    : 'the agent now signs with a key; before, it registered without a key';
}

const recordChange = (
  tx: Transaction,
  change: Change,
  { former, to }: { former: string | null; to: string },
  { now, via, node_id, node_instance_id, correlation_id }: Omit<KeyChange, 'former'>,
): Promise<void> =>
  recordEvidence(tx, [
    {
      at: now,
      layer: 'node',
      kind: 'credential.key_changed',
      summary: summaryOf(change, former),
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
  { former, via, node_id }: KeyChange,
  key: string,
): Promise<Change> {
  const trusted = trustedKeyOf(former);
  // Returning to the last proven key needs no signature, because afterwards only signatures by that
  // key count.
  if (key === trusted) return 'restored';
  // A signature by an unproven key proves nothing.
  if (isSignedBy(trusted, former, key, request)) return 'signed';
  const isBeforeUse =
    via === 'enrollment_token' && former.key_unproven_since === null && !(await hasServed(tx, node_id));
  return isBeforeUse ? 'harmless' : 'unproven';
}

/** Returns the key to store with the registration, and records a change of key as evidence. */
export async function changeKey(tx: Transaction, request: RegisterRequest, keyChange: KeyChange): Promise<KeyStanding> {
  const { former, now } = keyChange;
  const { agent_public_key: former_key, key_unproven_since } = former;
  const trusted_public_key = trustedKeyOf(former);
  const key = request.agent_public_key ?? former_key;
  if (key === null || key === former_key)
    return { agent_public_key: former_key, key_unproven_since, trusted_public_key };
  if (former.registered_at === null) return provenKey(key);
  const change = await judgeChange(tx, request, keyChange, key);
  await recordChange(tx, change, { former: former_key, to: key }, keyChange);
  return change === 'unproven'
    ? { agent_public_key: key, key_unproven_since: now, trusted_public_key }
    : provenKey(key);
}

/** Restores the last proven key, which the agent signed with, and drops its replacement. */
export async function restoreKey(
  tx: Transaction,
  instance: InstanceRow,
  context: Pick<KeyChange, 'via' | 'now' | 'correlation_id'>,
): Promise<void> {
  const { agent_public_key, trusted_public_key, key_unproven_since, node_id, node_instance_id } = instance;
  if (!key_unproven_since || !trusted_public_key) return;
  await tx.query(
    `update instances
     set agent_public_key = trusted_public_key,
       key_unproven_since = null
     where node_instance_id = $1`,
    [node_instance_id],
  );
  const change = { former: agent_public_key, to: trusted_public_key };
  await recordChange(tx, 'restored', change, { ...context, node_id, node_instance_id });
}

export async function readKeyStanding(db: Queryable, id: NodeInstanceId): Promise<KeyStanding | undefined> {
  const [row] = await db.query<KeyStanding>(
    `select agent_public_key, key_unproven_since, trusted_public_key
     from instances
     where node_instance_id = $1`,
    [id],
  );
  return row;
}

/** Makes an unproven key the trusted one. Returns false if it has changed or is already trusted. */
export async function acceptKey(tx: Transaction, id: NodeInstanceId, agent_public_key: string): Promise<boolean> {
  const rows = await tx.query(
    `update instances
     set key_unproven_since = null,
       trusted_public_key = agent_public_key
     where node_instance_id = $1
       and agent_public_key = $2
       and key_unproven_since is not null
     returning node_instance_id`,
    [id, agent_public_key],
  );
  return rows.length > 0;
}
