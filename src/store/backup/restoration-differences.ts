/**
 * Stores how machines differ from the restored rows. A difference that is no longer seen is
 * deleted.
 */
import { moment, secondsLater } from '../../base/clock.ts';
import { type CorrelationId, firstIdAt, type NodeId, type NodeInstanceId } from '../../base/ids.ts';
import { type RestoredDifferenceKind, restoredDifferenceKinds } from '../../lifecycle/findings/restored-differences.ts';
import { holdingStatuses } from '../../lifecycle/model/states.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';
import type { ListedResource } from '../supervision/orphans.ts';
import type { RestorationRow } from './restorations.ts';

export interface Difference {
  kind: RestoredDifferenceKind;
  /** The node, or the resource of a machine that has no node here. */
  subject: string;
  driver: string | null;
  host: string | null;
  node_id: string | null;
  node_instance_id: string | null;
  /** For people. */
  seen: string;
}

export interface DifferenceRow extends Difference {
  first_seen_at: Date;
  seen_at: Date;
}

/** Compares what drivers list with the rows of nodes and instances. */
export async function compareResources(db: Queryable, listed: readonly ListedResource[]): Promise<Difference[]> {
  if (listed.length === 0) return [];
  return db.query<Difference>(
    `select distinct on (subject)
       case when node.node_id is null then 'came' else 'changed_hands' end as kind,
       coalesce(node.node_id, listed.resource) as subject,
       listed.driver,
       listed.host,
       listed.node_id,
       listed.node_instance_id,
       case
         when node.node_id is null then 'the provider lists ' || listed.resource || ', and no node is recorded for it'
         else 'the provider lists ' || listed.resource || ' of a newer instance'
       end as seen
     from jsonb_to_recordset($1::jsonb) as listed(
       driver text, host text, resource text, node_id text, node_instance_id text)
     left join nodes node on node.node_id = listed.node_id and node.status <> 'retired'
     where not exists (
         select 1
         from instances instance
         where instance.node_instance_id = listed.node_instance_id)
       -- Ids sort by the time of their creation. Older instances are pruned after a while.
       and (node.node_id is null or listed.node_instance_id > node.node_instance_id collate "C")
     order by subject`,
    [JSON.stringify(listed)],
  );
}

/** The parameters $1 and $2 of the queries below. */
type Bounds = [restoration_id: string, first_unknown_release: string];

/**
 * A release with an earlier id than `first_unknown_release` is in the rows, or was pruned. The
 * bound is an hour early, because the backup may lack the rows that were written last; retention
 * keeps each release for longer than that.
 */
function boundsOf({ restoration_id, remembers_until }: RestorationRow): Bounds {
  const remembered_from = remembers_until ? secondsLater(remembers_until, -3600) : moment(0);
  return [restoration_id, firstIdAt('workflow', remembered_from)];
}

/**
 * SQL: the latest answer of the node's agent to a ping since the restore, if it says which release
 * the agent ended last. Agents of version 0.1.0 send no release. `is_unknown`: the rows do not show
 * that the release succeeded.
 */
const latestAnswer = `
  select
    answer.workflow_id,
    answer.workflow_id is not null
      and (
        release.status <> 'succeeded'
        or (release.workflow_id is null and answer.workflow_id >= $2)) as is_unknown
  from (
    select ping.result ->> 'last_release' as workflow_id
    from tasks ping
    where ping.node_instance_id = node.node_instance_id
      and ping.type = 'ping'
      and ping.status = 'succeeded'
      and ping.created_at >= restoration.began_at
      and ping.result ? 'last_release'
    order by ping.created_at desc
    limit 1) answer
  left join operations release on release.workflow_id = answer.workflow_id`;

/** Stores what the answers to pings show. */
export async function compareReleases(tx: Transaction, restoration: RestorationRow, now: Date): Promise<void> {
  const differences = await tx.query<Difference>(
    `select 'changed_hands' as kind, node.node_id as subject, null as driver, null as host,
       node.node_id, node.node_instance_id,
       'its agent has cleaned the machine for ' || answer.workflow_id || ', which is not recorded as done' as seen
     from restorations restoration
     join nodes node on node.status <> 'retired'
     join lateral (${latestAnswer}) answer on answer.is_unknown
     where restoration.restoration_id = $1`,
    boundsOf(restoration),
  );
  await replaceDifferences(tx, restoration.restoration_id, { source: 'agents', differences }, now);
}

export interface AgentToAsk {
  node_id: NodeId;
  node_instance_id: NodeInstanceId;
  correlation_id: CorrelationId;
}

/**
 * Returns machines whose agent was heard since `since`, but has not answered a ping since then and
 * has no ping to answer.
 */
export function findAgentsToAsk(db: Queryable, since: Date, now: Date, limit: number): Promise<AgentToAsk[]> {
  return db.query<AgentToAsk>(
    `select node.node_id, node.node_instance_id, node.correlation_id
     from nodes node
     join instances instance on instance.node_instance_id = node.node_instance_id
     join heartbeats beat on beat.node_instance_id = node.node_instance_id
     where node.status <> 'retired'
       -- Only our own agents answer pings.
       and instance.door is null
       and instance.credential_hash is not null
       and beat.last_seen_at > $1
       and not exists (
         select 1
         from tasks ping
         where ping.node_instance_id = node.node_instance_id
           and ping.type = 'ping'
           and ping.created_at >= $1
           and (
             ping.status = 'succeeded'
             -- The rule that fails expired tasks does not run while the servers observe.
             or (ping.status in ('queued', 'leased') and ping.expires_at > $2)))
     order by node.node_id
     limit $3`,
    [since, now, limit],
  );
}

/** Stores the differences that one comparison saw, and deletes those that it no longer sees. */
export async function replaceDifferences(
  tx: Transaction,
  restoration_id: string,
  compared: { source: string; differences: readonly Difference[] },
  now: Date,
): Promise<void> {
  await tx.query(
    `insert into restoration_differences (
       restoration_id, source, kind, subject, driver, host, node_id, node_instance_id, seen, first_seen_at, seen_at)
     select $1, $2, kind, subject, driver, host, node_id, node_instance_id, seen, $4, $4
     from jsonb_to_recordset($3::jsonb) as difference(
       kind text, subject text, driver text, host text, node_id text, node_instance_id text, seen text)
     on conflict (restoration_id, source, kind, subject)
       do update set seen_at = excluded.seen_at, seen = excluded.seen`,
    [restoration_id, compared.source, JSON.stringify(compared.differences), now],
  );
  await tx.query(
    `delete from restoration_differences
     where restoration_id = $1
       and source = $2
       and seen_at < $3`,
    [restoration_id, compared.source, now],
  );
}

const holding = `(${holdingStatuses.map((status) => `'${status}'`).join(', ')})`;

/**
 * SQL: the live nodes, with the signs of life and of tenants since the restoration $1 began.
 * - heard: its agent has sent a heartbeat, or the machine is agentless
 * - answered: its agent has said which release it ended last
 * - changed_hands: its provider or its agent shows that it serves another tenant
 * - held: an allocation of the restored rows holds it
 * - reused: a release leaves the machine to the next tenant, so it may have changed hands unseen
 */
const nodesSince = `
  select node.node_id, node.node_instance_id, node.status, restoration.began_at, instance.registered_at, instance.door,
    instance.credential_hash is null or coalesce(beat.last_seen_at >= restoration.began_at, false) as heard,
    answer.is_unknown is not null as answered,
    coalesce(answer.is_unknown, false) or coalesce('changed_hands' = any(seen.kinds), false) as changed_hands,
    coalesce('gone' = any(seen.kinds), false) as gone,
    exists (
      select 1
      from allocations holder
      where holder.node_id = node.node_id
        and holder.status in ${holding}) as held,
    coalesce((generation.document ->> 'reuse')::boolean, pool.driver = 'external') as reused
  from restorations restoration
  join nodes node on node.status <> 'retired'
  join instances instance on instance.node_instance_id = node.node_instance_id
  join pools pool on pool.name = node.pool
  join pool_generations generation on generation.pool = node.pool and generation.generation = node.pool_generation
  left join heartbeats beat on beat.node_instance_id = node.node_instance_id
  left join lateral (${latestAnswer}) answer on true
  left join (
    select node_id, array_agg(kind) as kinds
    from restoration_differences
    where restoration_id = $1
    group by node_id) seen on seen.node_id = node.node_id
  where restoration.restoration_id = $1
    and restoration.ended_at is null`;

/**
 * SQL: the machine was heard from, and nothing contradicts the rows about its tenant. Uses the
 * columns of `nodesSince`.
 */
const isConfirmed = `(registered_at is not null and door is null and heard and (answered or not reused))`;

/**
 * SQL: all differences of the restoration $1. Two kinds follow from the present rows, so they are
 * not stored, and there are none after the restoration ended:
 * - unconfirmed: held here, but it may no longer serve the tenant of the rows
 * - maybe_used: free here, so it may have been allocated since the backup
 */
const allDifferences = `
  select kind, subject, driver, host, node_id, node_instance_id, seen, first_seen_at, seen_at
  from restoration_differences
  where restoration_id = $1
  union all
  select
    case when held then 'unconfirmed' else 'maybe_used' end,
    node_id, null, null, node_id, node_instance_id,
    case
      when not held then 'it is free here, and may have been allocated since the backup'
      when registered_at is null then 'it had not registered when the backup was taken'
      when door is not null then 'its client cannot say whom it serves'
      when not heard then 'its agent has sent nothing since the restore'
      else 'its agent has not said which release it ended last'
    end,
    began_at, began_at
  from (${nodesSince}) node
  where not changed_hands
    and not gone
    -- It has been taken out of service already.
    and status <> 'quarantined'
    and (not held or not ${isConfirmed})`;

export interface DifferencePage {
  items: DifferenceRow[];
  /** Where the next page begins; null on the last one. */
  cursor: string | null;
}

export async function listDifferences(
  db: Queryable,
  restoration: RestorationRow,
  { cursor, limit }: { cursor: string; limit: number },
): Promise<DifferencePage> {
  const rows = await db.query<DifferenceRow>(
    `select distinct on (kind collate "C", subject collate "C") *
     from (${allDifferences}) difference
     where kind || ' ' || subject > $3 collate "C"
     order by kind collate "C", subject collate "C"
     limit $4`,
    [...boundsOf(restoration), cursor, limit + 1],
  );
  const items = rows.slice(0, limit);
  const last = rows.length > limit ? items.at(-1) : undefined;
  return { items, cursor: last ? `${last.kind} ${last.subject}` : null };
}

export async function countDifferences(
  db: Queryable,
  restoration: RestorationRow,
): Promise<Record<RestoredDifferenceKind, number>> {
  const rows = await db.query<{ kind: RestoredDifferenceKind; count: number }>(
    `select kind, count(distinct subject)::int as count
     from (${allDifferences}) difference
     group by kind`,
    boundsOf(restoration),
  );
  const counts = Object.fromEntries(restoredDifferenceKinds.map((kind) => [kind, 0])) as Record<
    RestoredDifferenceKind,
    number
  >;
  for (const { kind, count } of rows) counts[kind] = count;
  return counts;
}

/** Differences that a person declares harmless. */
export interface Trust {
  /** Nothing was allocated after the backup. */
  trust_free: boolean;
  /** No unconfirmed machine has changed hands after the backup. */
  trust_unconfirmed: boolean;
}

export type ContestedNode = Pick<NodeRow, 'node_id' | 'node_instance_id' | 'status'> & { changed_hands: boolean };

/**
 * Returns and locks the next nodes in id order that an unknown tenant may use: they must not be
 * assigned or torn down. A machine that is gone has no tenant.
 */
export function lockContestedNodes(
  tx: Transaction,
  restoration: RestorationRow,
  { trust_free, trust_unconfirmed }: Trust,
  { after, limit }: { after: string; limit: number },
): Promise<ContestedNode[]> {
  return tx.query<ContestedNode>(
    `select node.node_id, node.node_instance_id, node.status, contested.changed_hands
     from (
       select node_id, changed_hands
       from (${nodesSince}) node
       where node_id > $5
         and case
           when changed_hands then true
           when gone then false
           when not held then not $4::boolean
           else not ${isConfirmed} and not $3::boolean
         end
       order by node_id
       limit $6) contested
     join nodes node on node.node_id = contested.node_id
     order by node.node_id
     for no key update of node`,
    [...boundsOf(restoration), trust_unconfirmed, trust_free, after, limit],
  );
}

/** Whether a comparison has still to be made before the differences are complete. */
export async function isComparing(
  db: Queryable,
  { began_at, inspected_at }: RestorationRow,
  now: Date,
): Promise<boolean> {
  if (!inspected_at) return true;
  const [row] = await db.query<{ is_waiting: boolean }>(
    `select exists (
       select 1
       from tasks
       where type = 'ping'
         and status in ('queued', 'leased')
         and created_at >= $1
         and expires_at > $2) as is_waiting`,
    [began_at, now],
  );
  return row?.is_waiting === true || (await findAgentsToAsk(db, began_at, now, 1)).length > 0;
}
