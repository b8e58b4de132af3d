/** Instances: one incarnation of a node each, with its enrolment, its credential and what its driver remembers. */
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
  /** Null: it does not age. */
  credential_expires_at: Date | null;
  next_credential_expires_at: Date | null;
  credential_used_at: Date | null;
  join_token_id: string | null;
  /** Those with limited uses that let it in before. */
  earlier_join_token_ids: string[] | null;
  agent_public_key: string | null;
  /** Since when it signs with a key that replaced another one without its signature; null once an operator accepted it. */
  key_unproven_since: Date | null;
  /** See `trustedKeyOf`; null in rows of earlier versions whose key is not in doubt. */
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
  /** Since its last allocation left it as it was and went on elsewhere. */
  unproven_since: Date | null;
  /** The foreign protocol it speaks; null for our own agents. Named as its column. */
  door: Protocol | null;
  /** How often it said that it would beat; such a client is not told how often it should. */
  announced_interval_seconds: number | null;
  /** What its process calls itself. */
  client_instance: string | null;
  /** When a registration last proved its key. */
  key_proven_at: Date | null;
}

export async function createInstance(
  tx: Transaction,
  fresh: { node_instance_id: NodeInstanceId; node_id: NodeId; enrollment_token?: string; join_token_id?: string },
  now: Date,
): Promise<void> {
  await tx.query(
    `insert into instances (node_instance_id, node_id, attempt, enrollment_token_hash, join_token_id, created_at)
     values ($1, $2, 1 + (select count(*) from instances where node_id = $2), $3, $4, $5)`,
    [
      fresh.node_instance_id,
      fresh.node_id,
      fresh.enrollment_token ? hashSecret(fresh.enrollment_token) : null,
      fresh.join_token_id ?? null,
      now,
    ],
  );
}

/** One that has registered in the moment in which it became known. */
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
  arrived: readonly RegisteredInstance[],
): Promise<void> {
  if (arrived.length === 0) return;
  const named =
    'node_instance_id, node_id, join_token_id, agent_public_key, agent_version, base_url, door, announced_interval_seconds, client_instance, credential_expires_at';
  await tx.query(
    `insert into instances (${named}, trusted_public_key, attempt, created_at, registered_at, registrations, credential_hash)
     select ${named}, agent_public_key, 1, at, at, 1, decode(hash, 'hex') from jsonb_to_recordset($1::jsonb) as arrived(node_instance_id text, node_id text, join_token_id text,
       agent_public_key text, agent_version text, base_url text, door text, announced_interval_seconds double precision, client_instance text, credential_expires_at timestamptz, at timestamptz, hash text)`,
    [
      JSON.stringify(
        arrived.map(({ credential, ...row }) => ({ ...row, hash: hashSecret(credential).toString('hex') })),
      ),
    ],
    { often: true },
  );
}

export async function instanceRow(db: Queryable, id: string, lock?: 'for update'): Promise<InstanceRow | undefined> {
  return (
    await db.query<InstanceRow>(`select * from instances where node_instance_id = $1 ${lock ?? ''}`, [id], {
      often: true,
    })
  )[0];
}

/** No agent registered for it: its provider finished it, and speaks for it. */
const isAgentless = 'registered_at is not null and credential_hash is null';

/** Who speaks for these instances, and why nothing that each of them says counts any more; null where it does. */
export async function instanceStandings(
  db: Queryable,
  ids: readonly string[],
): Promise<Map<string, { fenced: string | null; agentless: boolean; key_unproven: boolean }>> {
  if (ids.length === 0) return new Map();
  const rows = await db.query<
    Pick<InstanceRow, 'node_instance_id' | 'fenced_at' | 'fence_reason'> & { agentless: boolean; key_unproven: boolean }
  >(
    `select node_instance_id, fenced_at, fence_reason, ${isAgentless} as agentless, key_unproven_since is not null as key_unproven
     from instances where ${anyOf('node_instance_id', '$1::text[]')}`,
    [ids],
    { often: true },
  );
  return new Map(
    rows.map(({ node_instance_id, fenced_at, fence_reason, agentless, key_unproven }) => [
      node_instance_id,
      { agentless, key_unproven, fenced: fenced_at ? (fence_reason ?? 'it has no instance') : null },
    ]),
  );
}

/** How many instances a node has had since then. */
export async function countInstancesSince(db: Queryable, node_id: NodeId, since: Date): Promise<number> {
  const [row] = await db.query<{ made: number }>(
    'select count(*)::int as made from instances where node_id = $1 and created_at >= $2',
    [node_id, since],
  );
  return row?.made ?? 0;
}

/** What the driver wants to remember of an instance, whole. */
export async function saveDriverState(
  db: Queryable,
  id: NodeInstanceId,
  state: Record<string, unknown>,
): Promise<void> {
  await db.query('update instances set driver_state = $2 where node_instance_id = $1', [id, state]);
}

/** One that no agent speaks for: its provider finished it. */
export async function registerAgentless(tx: Transaction, id: NodeInstanceId, now: Date): Promise<void> {
  await tx.query('update instances set registered_at = coalesce(registered_at, $2) where node_instance_id = $1', [
    id,
    now,
  ]);
}

/** Only our own agents do tasks; clients of a foreign protocol only send heartbeats. */
export async function hasAgent(db: Queryable, id: NodeInstanceId): Promise<boolean> {
  const [row] = await db.query<{ own: boolean }>(
    `select door is null and not (${isAgentless}) as own from instances where node_instance_id = $1`,
    [id],
  );
  return row?.own ?? true;
}

/** Its allocation goes on elsewhere and leaves it as it is: nobody may have it before something is proven of it. */
export async function markUnproven(tx: Transaction, id: NodeInstanceId, now: Date): Promise<void> {
  await tx.query('update instances set unproven_since = $2 where node_instance_id = $1', [id, now]);
}

/** Whether the instance's agent has been heard within its own stale time, so that asking it something makes sense. */
export async function isAgentFresh(db: Queryable, id: NodeInstanceId, now: Date): Promise<boolean> {
  const [row] = await db.query<{ fresh: boolean }>(
    `select instance.registered_at is not null and instance.fenced_at is null and instance.revoked_at is null and instance.door is null
       and instance.credential_hash is not null
       and greatest(instance.registered_at, beat.last_seen_at) > $2::timestamptz - make_interval(secs => coalesce(beat.stale_seconds, 30)) as fresh
     from instances instance left join heartbeats beat on beat.node_instance_id = instance.node_instance_id where instance.node_instance_id = $1`,
    [id, now],
    { often: true },
  );
  return row?.fresh ?? false;
}

export interface Fence extends KnownIds {
  node_instance_id: NodeInstanceId;
  reason: string;
}

/** From here on nothing these instances say changes their nodes. `revoke` also ends their credentials and what they were asked to do. */
export async function fenceInstances(tx: Transaction, fences: Fence[], revoke: boolean, now: Date): Promise<void> {
  if (fences.length === 0) return;
  const rows = await tx.query<{ node_instance_id: NodeInstanceId; node_id: NodeId }>(
    `update instances set fenced_at = coalesce(fenced_at, $2), fence_reason = coalesce(fence_reason, fence.reason),
       revoked_at = case when $3 then coalesce(revoked_at, $2) else revoked_at end
     from jsonb_to_recordset($1::jsonb) as fence(node_instance_id text, reason text)
     where instances.node_instance_id = fence.node_instance_id and (fenced_at is null or ($3 and revoked_at is null))
     returning instances.node_instance_id, instances.node_id`,
    [JSON.stringify(fences), now, revoke],
  );
  if (rows.length === 0) return;
  const nodeOf = new Map(rows.map((row) => [row.node_instance_id, row.node_id]));
  const fresh = fences.filter((fence) => nodeOf.has(fence.node_instance_id));
  // Nobody listens for them any more.
  await tx.query('update heartbeats set over = true where node_instance_id = any($1)', [[...nodeOf.keys()]]);
  if (revoke) await withdrawTasks(tx, fresh, now);
  await recordEvidence(
    tx,
    fresh.map(({ reason, ...ids }) => ({
      at: now,
      layer: 'workflow',
      kind: revoke ? 'instance.revoked' : 'instance.fenced',
      summary: `the instance is ${revoke ? 'fenced and its credential revoked' : 'fenced'}: ${reason}`,
      data: { reason },
      ...ids,
      node_id: nodeOf.get(ids.node_instance_id) ?? null,
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

/** The instance a credential belongs to. Using a rotated credential for the first time retires the former one. */
export async function instanceByCredential(
  db: Queryable,
  credential: string,
  now: Date,
): Promise<InstanceRow | undefined> {
  const hash = hashSecret(credential);
  const [row] = await db.query<InstanceRow>(
    'select * from instances where credential_hash = $1 or next_credential_hash = $1',
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
    `update instances set credential_hash = $2, next_credential_hash = null, credential_used_at = $3,
       credential_expires_at = next_credential_expires_at, next_credential_expires_at = null
     where node_instance_id = $1 and next_credential_hash = $2 returning node_instance_id`,
    [node_instance_id, hash, now],
  );
  // Replicas remember credentials; this fact makes them forget the former one.
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
  const { which, value, how } = byIds('node_instance_id', '$1', ids);
  await db.query(
    `update instances set credential_used_at = $2 where ${which} and credential_used_at is null`,
    [value, now],
    how,
  );
}
