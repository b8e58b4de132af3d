/** What the tables say of agents, for as many as are asked for by one statement. */
import type { NodeId, NodeInstanceId } from '../../../base/ids.ts';
import type { Protocol } from '../../../contract/compat/protocol.ts';
import type { HeartbeatSettings } from '../../../lifecycle/deadlines/budgets.ts';
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
  /** Named as its column; null for our own agents. */
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
  /** Which instance its node has now. */
  current_instance: string | null;
  allocation_id: string | null;
  heartbeat: HeartbeatSettings | null;
  kept_interval_seconds: number | null;
  tasks_waiting: number;
}

const rowsOf = (instances: string) => `
  select instance.node_instance_id, instance.node_id, instance.credential_hash, instance.next_credential_hash, instance.credential_used_at,
    instance.credential_expires_at, instance.next_credential_expires_at,
    instance.fenced_at, instance.fence_reason, instance.revoked_at, instance.door, instance.announced_interval_seconds, instance.client_instance,
    instance.join_token_id, instance.earlier_join_token_ids,
    node.pool, node.name, node.status as node_status, node.reported_status, node.verdict ->> 'rule' as verdict_rule,
    node.node_instance_id as current_instance, ${holderOf('node.node_id')} as allocation_id,
    generation.document -> 'heartbeat' as heartbeat,
    (select interval_seconds from heartbeats where node_instance_id = instance.node_instance_id) as kept_interval_seconds,
    (select count(*)::int from tasks where node_instance_id = instance.node_instance_id and status = 'queued') as tasks_waiting
  from ${instances} instance join nodes node on node.node_id = instance.node_id
    join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation`;

const rowsWhere = (which: string) => `${rowsOf('instances')} where ${which}`;

const byName = rowsWhere(
  `node.pool = $1 and node.name = $2 and node.status <> 'retired' and node.node_instance_id = instance.node_instance_id and instance.door = $3`,
);

export interface Shown {
  hash: Buffer;
  now: Date;
}

const keyOf = (hash: Buffer) => hash.toString('latin1');

/**
 * Nearly everybody shows the present credential, and to ask for both at once costs more than to ask for the next one where that is not found.
 * Between the two somebody else may have used the next one, which is then the present one: who was not found either way is asked for once more.
 */
const lookedFor = ['credential_hash', 'next_credential_hash', 'credential_hash'] as const;

async function rowsByHash(db: Queryable, shown: readonly Shown[]): Promise<Map<string, SessionRow>> {
  const byHash = new Map<string, SessionRow>();
  for (const column of lookedFor) {
    const missing = shown.flatMap(({ hash }) => (byHash.has(keyOf(hash)) ? [] : hash));
    if (missing.length === 0) break;
    const asked = rowsWhere(anyOf(`instance.${column}`, '$1::bytea[]'));
    for (const row of await db.query<SessionRow>(asked, [missing], { often: true })) {
      const hash = row[column];
      if (hash) byHash.set(keyOf(hash), row);
    }
  }
  return byHash;
}

/** In the order of the hashes. Showing a credential for the first time is a use of it, and that of a new one ends the former. */
export async function rowsByCredential(
  db: Queryable,
  shown: readonly Shown[],
  onReplaced: (id: NodeInstanceId) => void,
): Promise<(SessionRow | undefined)[]> {
  const byHash = await rowsByHash(db, shown);
  const unused: NodeInstanceId[] = [];
  const found = shown.map(({ hash }) => byHash.get(keyOf(hash)));
  for (const [index, row] of found.entries()) {
    const { hash, now } = shown[index] as Shown;
    if (row?.next_credential_hash?.equals(hash)) {
      onReplaced(row.node_instance_id);
      await replaceCredential(db, row, hash, now);
      row.credential_expires_at = row.next_credential_expires_at;
    } else if (row && !row.credential_used_at) unused.push(row.node_instance_id);
  }
  if (unused.length > 0) await recordFirstUse(db, unused, (shown[0] as Shown).now);
  return found;
}

/**
 * The next of our own agents in the order of their ids, those that may be beating now. To read them one after another is many times
 * cheaper than to look each up by its credential. Whoever has yet to show its credential for the first time is not among them.
 */
export const rowsAfter = (db: Queryable, cursor: string, limit: number): Promise<SessionRow[]> =>
  db.query<SessionRow>(
    // Their number is fixed before anything else is asked of them, or the whole fleet would be put together for the first few.
    `${rowsOf(`(select * from instances where node_instance_id > $1 and fenced_at is null and credential_hash is not null
       and next_credential_hash is null and credential_used_at is not null order by node_instance_id limit ${limit})`)}
     order by instance.node_instance_id`,
    [cursor],
    { often: true },
  );

/** In the order of the ids. */
export async function rowsByInstance(db: Queryable, ids: readonly string[]): Promise<(SessionRow | undefined)[]> {
  const asked = rowsWhere(anyOf('instance.node_instance_id', '$1::text[]'));
  const rows = await db.query<SessionRow>(asked, [ids], { often: true });
  const byId = new Map(rows.map((row) => [row.node_instance_id as string, row]));
  return ids.map((id) => byId.get(id));
}

/** A client of a foreign protocol has no credential of its own; its name finds it in the pool of its join token. */
export async function rowByName(
  db: Queryable,
  { protocol, pool, name }: { protocol: Protocol; pool: string; name: string },
): Promise<SessionRow | undefined> {
  return (await db.query<SessionRow>(byName, [pool, name, protocol]))[0];
}
