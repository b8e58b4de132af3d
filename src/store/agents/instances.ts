/**
 * Creates, reads and fences instances. An instance is one incarnation of a node, with its
 * enrolment, its credential and the state of its driver.
 */
import { hashSecret } from '../../base/credentials/random-secret.ts';
import type { KnownIds, NodeId, NodeInstanceId } from '../../base/ids.ts';
import type { Protocol } from '../../contract/compat/protocol.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import { anyOf, byIds } from '../pg/by-ids.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { withdrawTasks } from './tasks.ts';

export interface InstanceRow {
  node_instance_id: NodeInstanceId;
  node_id: NodeId;
  attempt: number;
  enrollment_token_hash: Buffer | null;
  credential_hash: Buffer | null;
  next_credential_hash: Buffer | null;
  /** Null if the credential never expires. */
  credential_expires_at: Date | null;
  next_credential_expires_at: Date | null;
  credential_used_at: Date | null;
  join_token_id: string | null;
  /** Tokens with limited uses that the instance registered with before. */
  earlier_join_token_ids: string[] | null;
  agent_public_key: string | null;
  /** Since when the instance has a key that neither the former key nor an operator approved. */
  key_unproven_since: Date | null;
  /** See `trustedKeyOf`. Rows of earlier versions have null, unless their key is unproven. */
  trusted_public_key: string | null;
  agent_version: string | null;
  base_url: string | null;
  driver_state: Record<string, string | number | boolean | null>;
  created_at: Date;
  registered_at: Date | null;
  registrations: number;
  fenced_at: Date | null;
  fence_reason: string | null;
  revoked_at: Date | null;
  /** When the last allocation moved to another node without cleaning this one. */
  unproven_since: Date | null;
  /** The foreign protocol of a client, under the column's name; null for our own agents. */
  door: Protocol | null;
  /** The heartbeat interval that a client announced. The server assigns no other interval to it. */
  announced_interval_seconds: number | null;
  /** The id that the client's process picked. */
  client_instance: string | null;
  /** When the last accepted key proof was signed; an older proof is a replay. */
  key_proven_at: Date | null;
}

export async function createInstance(
  tx: Transaction,
  instance: { node_instance_id: NodeInstanceId; node_id: NodeId; enrollment_token?: string; join_token_id?: string },
  now: Date,
): Promise<void> {
  await tx.query(
    `insert into instances
       (node_instance_id, node_id, attempt, enrollment_token_hash, join_token_id, created_at)
     values
       ($1, $2, 1 + (select coalesce(max(attempt), 0) from instances where node_id = $2), $3, $4, $5)`,
    [
      instance.node_instance_id,
      instance.node_id,
      instance.enrollment_token ? hashSecret(instance.enrollment_token) : null,
      instance.join_token_id ?? null,
      now,
    ],
  );
}

/** An instance that registers when it is created. */
export interface RegisteredInstance
  extends Pick<
    InstanceRow,
    | 'node_instance_id'
    | 'node_id'
    | 'join_token_id'
    | 'agent_public_key'
    | 'agent_version'
    | 'base_url'
    | 'door'
    | 'announced_interval_seconds'
    | 'client_instance'
    | 'credential_expires_at'
  > {
  credential: string;
  at: Date;
}

export async function createRegisteredInstances(
  tx: Transaction,
  instances: readonly RegisteredInstance[],
): Promise<void> {
  if (instances.length === 0) return;
  await tx.query(
    `insert into instances
       (node_instance_id, node_id, join_token_id, agent_public_key, trusted_public_key, agent_version,
        base_url, door, announced_interval_seconds, client_instance, credential_expires_at,
        attempt, created_at, registered_at, registrations, credential_hash)
     select
       node_instance_id, node_id, join_token_id, agent_public_key, agent_public_key, agent_version,
       base_url, door, announced_interval_seconds, client_instance, credential_expires_at,
       1, at, at, 1, decode(hash, 'hex')
     from jsonb_to_recordset($1::jsonb) as registered(
       node_instance_id text, node_id text, join_token_id text, agent_public_key text, agent_version text,
       base_url text, door text, announced_interval_seconds double precision, client_instance text,
       credential_expires_at timestamptz, at timestamptz, hash text)`,
    [
      JSON.stringify(
        instances.map(({ credential, ...row }) => ({ ...row, hash: hashSecret(credential).toString('hex') })),
      ),
    ],
    { prepared: true },
  );
}

export async function instanceRow(db: Queryable, id: string, lock?: 'for update'): Promise<InstanceRow | undefined> {
  return (
    await db.query<InstanceRow>(`select * from instances where node_instance_id = $1 ${lock ?? ''}`, [id], {
      prepared: true,
    })
  )[0];
}

/** SQL: the provider supervises the instance, because no agent registered for it. */
const isAgentless = 'registered_at is not null and credential_hash is null';

/** Reads whether each instance is agentless, whether its key is unproven, and why it is fenced. */
export async function readInstanceStandings(
  db: Queryable,
  ids: readonly string[],
): Promise<Map<string, { fenced: string | null; agentless: boolean; key_unproven: boolean }>> {
  if (ids.length === 0) return new Map();
  const rows = await db.query<
    Pick<InstanceRow, 'node_instance_id' | 'fenced_at' | 'fence_reason'> & { agentless: boolean; key_unproven: boolean }
  >(
    `select
       node_instance_id,
       fenced_at,
       fence_reason,
       ${isAgentless} as agentless,
       key_unproven_since is not null as key_unproven
     from instances
     where ${anyOf('node_instance_id', '$1::text[]')}`,
    [ids],
    { prepared: true },
  );
  return new Map(
    rows.map(({ node_instance_id, fenced_at, fence_reason, agentless, key_unproven }) => [
      node_instance_id,
      { agentless, key_unproven, fenced: fenced_at ? (fence_reason ?? 'no reason is recorded') : null },
    ]),
  );
}

/** Counts the instances of a node that were created since a time. */
export async function countInstancesSince(db: Queryable, node_id: NodeId, since: Date): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    'select count(*)::int as count from instances where node_id = $1 and created_at >= $2',
    [node_id, since],
  );
  return row?.count ?? 0;
}

/** Replaces the whole driver state of an instance. */
export async function saveDriverState(
  db: Queryable,
  id: NodeInstanceId,
  state: Record<string, unknown>,
): Promise<void> {
  await db.query('update instances set driver_state = $2 where node_instance_id = $1', [id, state]);
}

/** Marks an agentless instance as registered, because its provider has finished the launch. */
export async function registerAgentless(tx: Transaction, id: NodeInstanceId, now: Date): Promise<void> {
  await tx.query('update instances set registered_at = coalesce(registered_at, $2) where node_instance_id = $1', [
    id,
    now,
  ]);
}

/**
 * Returns whether the instance has an agent that does tasks, or may still get one. Clients of a
 * foreign protocol do no tasks.
 */
export async function hasAgent(db: Queryable, id: NodeInstanceId): Promise<boolean> {
  const [row] = await db.query<{ has_agent: boolean }>(
    `select door is null and not (${isAgentless}) as has_agent
     from instances
     where node_instance_id = $1`,
    [id],
  );
  return row?.has_agent ?? true;
}

/**
 * Marks an instance whose allocation moved to another node without cleaning this one. The node must
 * not go to another tenant before its clean-up is proven.
 */
export async function markUnproven(tx: Transaction, id: NodeInstanceId, now: Date): Promise<void> {
  await tx.query('update instances set unproven_since = $2 where node_instance_id = $1', [id, now]);
}

/**
 * Returns whether the agent registered or sent a heartbeat within its stale time, so that it can
 * get a task. Time in which no replica could store heartbeats does not count as silence.
 */
export async function isAgentFresh(db: Queryable, id: NodeInstanceId, now: Date): Promise<boolean> {
  const [row] = await db.query<{ fresh: boolean }>(
    `select
       instance.registered_at is not null
         and instance.fenced_at is null
         and instance.revoked_at is null
         -- Clients of a foreign protocol do no tasks.
         and instance.door is null
         and instance.credential_hash is not null
         -- Before its first heartbeat an agent has the default stale time of 30 s.
         and heard.at + make_interval(secs => coalesce(beat.stale_seconds, 30))
           + coalesce(
               (
                 select sum(gap.ended_at - greatest(gap.started_at, heard.at))
                 from ingest_gaps gap
                 where gap.ended_at > heard.at
               ),
               interval '0'
             )
           -- A gap that has just ended may not be recorded yet.
           > least($2::timestamptz, (select max(flushed_through) from replicas)) as fresh
     from instances instance
     left join heartbeats beat on beat.node_instance_id = instance.node_instance_id
     cross join lateral (select greatest(instance.registered_at, beat.last_seen_at) as at) heard
     where instance.node_instance_id = $1`,
    [id, now],
    { prepared: true },
  );
  return row?.fresh ?? false;
}

export interface FenceRequest extends KnownIds {
  node_instance_id: NodeInstanceId;
  reason: string;
}

/**
 * Fences instances: their reports no longer change their nodes. `revoke` also revokes their
 * credentials and withdraws their tasks.
 */
export async function fenceInstances(
  tx: Transaction,
  fences: FenceRequest[],
  revoke: boolean,
  now: Date,
): Promise<void> {
  if (fences.length === 0) return;
  const rows = await tx.query<{ node_instance_id: NodeInstanceId; node_id: NodeId }>(
    `update instances
     set fenced_at = coalesce(fenced_at, $2),
       fence_reason = coalesce(fence_reason, fence.reason),
       revoked_at = case when $3 then coalesce(revoked_at, $2) else revoked_at end
     from jsonb_to_recordset($1::jsonb) as fence(node_instance_id text, reason text)
     where instances.node_instance_id = fence.node_instance_id
       -- Skips instances that this fence does not change, so that a retry records no evidence.
       and (fenced_at is null or ($3 and revoked_at is null))
     returning instances.node_instance_id, instances.node_id`,
    [JSON.stringify(fences), now, revoke],
  );
  if (rows.length === 0) return;
  const nodeIds = new Map(rows.map((row) => [row.node_instance_id, row.node_id]));
  const changed = fences.filter((fence) => nodeIds.has(fence.node_instance_id));
  // The liveness sweep skips heartbeats that are over.
  await tx.query('update heartbeats set over = true where node_instance_id = any($1)', [[...nodeIds.keys()]]);
  if (revoke) await withdrawTasks(tx, changed, now);
  await recordEvidence(
    tx,
    changed.map(({ reason, ...ids }) => ({
      at: now,
      layer: 'workflow',
      kind: revoke ? 'instance.revoked' : 'instance.fenced',
      summary: `the instance is ${revoke ? 'fenced and its credential revoked' : 'fenced'}: ${reason}`,
      data: { reason },
      ...ids,
      node_id: nodeIds.get(ids.node_instance_id) ?? null,
    })),
  );
}

export const fenceInstance = (
  tx: Transaction,
  id: NodeInstanceId,
  { revoke, ...fence }: { reason: string; revoke: boolean } & KnownIds,
  now: Date,
): Promise<void> => fenceInstances(tx, [{ ...fence, node_instance_id: id }], revoke, now);

export async function isRevoked(db: Queryable, id: NodeInstanceId): Promise<boolean> {
  const [row] = await db.query<{ revoked: boolean }>(
    'select revoked_at is not null as revoked from instances where node_instance_id = $1',
    [id],
  );
  return row?.revoked ?? true;
}

/** Finds a credential's instance. The first use of a rotated credential voids the former one. */
export async function instanceByCredential(
  db: Queryable,
  credential: string,
  now: Date,
): Promise<InstanceRow | undefined> {
  const hash = hashSecret(credential);
  const [row] = await db.query<InstanceRow>(
    `select *
     from instances
     where credential_hash = $1
       or next_credential_hash = $1`,
    [hash],
  );
  if (!row) return undefined;
  if (row.next_credential_hash?.equals(hash)) {
    await replaceCredential(db, row, hash, now);
    return { ...row, credential_expires_at: row.next_credential_expires_at };
  }
  if (!row.credential_used_at) await recordFirstUse(db, [row.node_instance_id], now);
  return row;
}

export async function replaceCredential(
  db: Queryable,
  { node_id, node_instance_id }: Pick<InstanceRow, 'node_id' | 'node_instance_id'>,
  hash: Buffer,
  now: Date,
): Promise<void> {
  const replaced = await db.query(
    `update instances
     set credential_hash = $2,
       next_credential_hash = null,
       credential_used_at = $3,
       credential_expires_at = next_credential_expires_at,
       next_credential_expires_at = null
     where node_instance_id = $1
       -- No row matches if a concurrent call replaced the credential first.
       and next_credential_hash = $2
     returning node_instance_id`,
    [node_instance_id, hash, now],
  );
  // Each replica caches credentials and drops the former one when it reads this fact.
  if (replaced.length > 0)
    await recordEvidence(db, [
      {
        at: now,
        layer: 'node',
        kind: 'credential.replaced',
        summary: 'the new credential is in use, the former one is void',
        node_id,
        node_instance_id,
      },
    ]);
}

export async function recordFirstUse(db: Queryable, ids: readonly NodeInstanceId[], now: Date): Promise<void> {
  const { condition, value, options } = byIds('node_instance_id', '$1', ids);
  await db.query(
    `update instances
     set credential_used_at = $2
     where ${condition}
       and credential_used_at is null`,
    [value, now],
    options,
  );
}
