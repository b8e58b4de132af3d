/** Reads the rows of agent sessions, many by one statement. */
import type { NodeId, NodeInstanceId } from '../../../base/ids.ts';
import type { Protocol } from '../../../contract/compat/protocol.ts';
import type { HeartbeatSettings } from '../../../lifecycle/deadlines/heartbeat-policy.ts';
import type { NodeStatus } from '../../../lifecycle/model/states.ts';
import { anyOf } from '../../pg/by-ids.ts';
import type { Queryable } from '../../pg/database.ts';
import { holderOf } from '../../rows/allocations.ts';
import { recordFirstUse, replaceCredential } from '../instances.ts';

export interface SessionRow {
  node_instance_id: NodeInstanceId;
  node_id: NodeId;
  credential_hash: Buffer | null;
  next_credential_hash: Buffer | null;
  credential_used_at: Date | null;
  credential_expires_at: Date | null;
  next_credential_expires_at: Date | null;
  fenced_at: Date | null;
  fence_reason: string | null;
  revoked_at: Date | null;
  /** The foreign protocol, under the column's name; null for our own agents. */
  door: Protocol | null;
  announced_interval_seconds: number | null;
  client_instance: string | null;
  join_token_id: string | null;
  earlier_join_token_ids: string[] | null;
  pool: string;
  name: string;
  node_status: NodeStatus;
  reported_status: string | null;
  verdict_rule: string | null;
  /** The current instance of the node. */
  current_instance: string | null;
  allocation_id: string | null;
  heartbeat: HeartbeatSettings | null;
  stored_interval_seconds: number | null;
  tasks_waiting: number;
}

const selectFrom = (instances: string) => `
  select
    instance.node_instance_id,
    instance.node_id,
    instance.credential_hash,
    instance.next_credential_hash,
    instance.credential_used_at,
    instance.credential_expires_at,
    instance.next_credential_expires_at,
    instance.fenced_at,
    instance.fence_reason,
    instance.revoked_at,
    instance.door,
    instance.announced_interval_seconds,
    instance.client_instance,
    instance.join_token_id,
    instance.earlier_join_token_ids,
    node.pool,
    node.name,
    node.status as node_status,
    node.reported_status,
    node.verdict ->> 'rule' as verdict_rule,
    node.node_instance_id as current_instance,
    ${holderOf('node.node_id')} as allocation_id,
    generation.document -> 'heartbeat' as heartbeat,
    (select interval_seconds
     from heartbeats
     where node_instance_id = instance.node_instance_id) as stored_interval_seconds,
    (select count(*)::int
     from tasks
     where node_instance_id = instance.node_instance_id
       and status = 'queued') as tasks_waiting
  from ${instances} instance
  join nodes node on node.node_id = instance.node_id
  join pool_generations generation
    on generation.pool = node.pool
    and generation.generation = node.pool_generation`;

const selectWhere = (condition: string) => `${selectFrom('instances')}\n  where ${condition}`;

const selectByName = selectWhere(`node.pool = $1
    and node.name = $2
    and node.status <> 'retired'
    and node.node_instance_id = instance.node_instance_id
    and instance.door = $3`);

export interface SentCredential {
  hash: Buffer;
  now: Date;
}

const keyOf = (hash: Buffer) => hash.toString('latin1');

/**
 * Nearly all agents send their current credential, so only hashes that match none are looked up
 * among the next credentials; one query for both costs more. A concurrent call may make a next
 * credential the current one between the two queries, so the current ones are searched again.
 */
const hashColumns = ['credential_hash', 'next_credential_hash', 'credential_hash'] as const;

async function readRowsByHash(db: Queryable, sent: readonly SentCredential[]): Promise<Map<string, SessionRow>> {
  const rows = new Map<string, SessionRow>();
  for (const column of hashColumns) {
    const missing = sent.flatMap(({ hash }) => (rows.has(keyOf(hash)) ? [] : hash));
    if (missing.length === 0) break;
    const select = selectWhere(anyOf(`instance.${column}`, '$1::bytea[]'));
    for (const row of await db.query<SessionRow>(select, [missing], { prepared: true })) {
      const hash = row[column];
      if (hash) rows.set(keyOf(hash), row);
    }
  }
  return rows;
}

/**
 * Returns the rows in the order of the credentials, and records the first use of each. The first
 * use of a rotated credential voids the former one and calls `onReplaced`.
 */
export async function readRowsByCredential(
  db: Queryable,
  sent: readonly SentCredential[],
  onReplaced: (id: NodeInstanceId) => void,
): Promise<(SessionRow | undefined)[]> {
  const rowsByHash = await readRowsByHash(db, sent);
  const unused: NodeInstanceId[] = [];
  const rows = sent.map(({ hash }) => rowsByHash.get(keyOf(hash)));
  for (const [index, row] of rows.entries()) {
    const { hash, now } = sent[index] as SentCredential;
    if (row?.next_credential_hash?.equals(hash)) {
      onReplaced(row.node_instance_id);
      await replaceCredential(db, row, hash, now);
      row.credential_expires_at = row.next_credential_expires_at;
    } else if (row && !row.credential_used_at) unused.push(row.node_instance_id);
  }
  if (unused.length > 0) await recordFirstUse(db, unused, (sent[0] as SentCredential).now);
  return rows;
}

/**
 * Reads the next agents in id order that may be sending heartbeats now. A scan in id order is many
 * times cheaper than a lookup of each credential. Agents that have not used their credential yet
 * are left out.
 */
export const readRowsAfter = (db: Queryable, cursor: string, limit: number): Promise<SessionRow[]> =>
  db.query<SessionRow>(
    // The limit is inside the subquery. Outside, PostgreSQL would join the whole fleet first.
    `${selectFrom(`(
       select *
       from instances
       where node_instance_id > $1
         and fenced_at is null
         and credential_hash is not null
         -- Skips pending rotations: the agent's next call decides which credential stays valid.
         and next_credential_hash is null
         and credential_used_at is not null
       order by node_instance_id
       limit ${limit})`)}
     order by instance.node_instance_id`,
    [cursor],
    { prepared: true },
  );

/** Returns the rows in the order of the ids. */
export async function readRowsByInstance(db: Queryable, ids: readonly string[]): Promise<(SessionRow | undefined)[]> {
  const select = selectWhere(anyOf('instance.node_instance_id', '$1::text[]'));
  const rows = await db.query<SessionRow>(select, [ids], { prepared: true });
  const rowsById = new Map(rows.map((row) => [row.node_instance_id as string, row]));
  return ids.map((id) => rowsById.get(id));
}

/** Finds a foreign protocol's client, which has no credential, by its token's pool and its name. */
export async function readRowByName(
  db: Queryable,
  { protocol, pool, name }: { protocol: Protocol; pool: string; name: string },
): Promise<SessionRow | undefined> {
  return (await db.query<SessionRow>(selectByName, [pool, name, protocol]))[0];
}
