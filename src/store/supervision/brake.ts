/** Stores the state of the brake: open holds, held nodes, and the tally of recent verdicts. */
import { secondsLater } from '../../base/clock.ts';
import type { Actor } from '../../contract/evidence/evidence.ts';
import type { Held } from '../../contract/node.ts';
import type { BrakePolicy } from '../../lifecycle/brake/brake.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { coversNodeNow } from '../rows/maintenance.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { type AmendedNode, amendNodes } from '../transitions/amend-node.ts';
import type { ScopeCount } from './past-deadline.ts';

export interface Scope {
  scope: 'pool' | 'zone';
  name: string;
}

export interface HoldRow extends Scope {
  hold_id: string;
  kind: 'self-fault' | 'mass-failure';
  rule: string;
  reason: string;
  negative: number;
  population: number;
  since: Date;
  held_until: Date;
  resumed_at: Date | null;
  resumed_by: Actor | null;
  ended_at: Date | null;
}

export const readOpenHolds = (db: Queryable, rule?: string): Promise<HoldRow[]> =>
  db.query<HoldRow>(
    `select *
     from brake_holds
     where ended_at is null
       and ($1::text is null or rule = $1)
     order by since`,
    [rule ?? null],
  );

export const readNewestHolds = (db: Queryable, limit: number): Promise<HoldRow[]> =>
  db.query<HoldRow>('select * from brake_holds order by since desc limit $1', [limit]);

/** Opens a hold, or returns the one that another replica opened for the same failure. */
export async function openHold(
  tx: Transaction,
  newHold: Omit<HoldRow, 'resumed_at' | 'resumed_by' | 'ended_at'>,
): Promise<HoldRow> {
  const [opened] = await tx.query<HoldRow>(
    `insert into brake_holds (hold_id, kind, rule, scope, name, reason, negative, population, since, held_until)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
     on conflict (kind, rule, scope, name) where ended_at is null do nothing
     returning *`,
    [
      newHold.hold_id,
      newHold.kind,
      newHold.rule,
      newHold.scope,
      newHold.name,
      newHold.reason,
      newHold.negative,
      newHold.population,
      newHold.since,
      newHold.held_until,
    ],
  );
  if (opened) {
    await recordEvidence(tx, [
      {
        at: newHold.since,
        layer: 'rule',
        kind: 'brake.held',
        summary: `the brake holds ${newHold.rule} in ${newHold.scope} ${newHold.name}: ${newHold.reason}`,
        data: { ...newHold },
      },
    ]);
    return opened;
  }
  const [existing] = await tx.query<HoldRow>(
    `select *
     from brake_holds
     where kind = $1
       and rule = $2
       and scope = $3
       and name = $4
       and ended_at is null`,
    [newHold.kind, newHold.rule, newHold.scope, newHold.name],
  );
  if (!existing) throw new Error('a hold ended while it was opened; the next pass retries');
  return existing;
}

export async function tallyVerdicts(tx: Transaction, rule: string, counts: ScopeCount[], now: Date): Promise<void> {
  if (counts.length === 0) return;
  await tx.query(
    `insert into brake_tally (at, rule, pool, zone, verdicts)
     select $1, $2, pool, zone, count
     from jsonb_to_recordset($3::jsonb) as counted(pool text, zone text, count integer)`,
    [now, rule, JSON.stringify(counts)],
    { prepared: true },
  );
}

/** Returns the given rules that wrote a verdict after `since`. */
export async function findRulesWithRecentVerdicts(
  db: Queryable,
  rules: readonly string[],
  since: Date,
): Promise<Set<string>> {
  const rows = await db.query<{ rule: string }>(
    `select distinct rule
     from brake_tally
     where rule = any($1)
       and at > $2`,
    [rules, since],
  );
  return new Set(rows.map(({ rule }) => rule));
}

const recentSql = `
  select pool, zone, sum(verdicts)::int as count
  from brake_tally
  where rule = $1
    and at > $2
  group by 1, 2`;

/** Counts the verdicts that a rule wrote after `since`, by pool and zone. */
export async function countRecentVerdicts(db: Queryable, rule: string, since: Date): Promise<ScopeCount[]> {
  return db.query<ScopeCount>(recentSql, [rule, since]);
}

/** Counts nodes up to `max`, because the brake compares a share and needs no exact fleet size. */
export async function countPopulationsUpTo(
  db: Queryable,
  scopes: (Scope & { max: number })[],
  statuses: readonly NodeStatus[],
): Promise<number[]> {
  if (scopes.length === 0) return [];
  const rows = await db.query<{ count: number }>(
    `select case wanted.scope
         when 'pool' then (
           select count(*)::int
           from (select from nodes where pool = wanted.name and status = any($4) limit wanted.max) counted)
         else (
           select count(*)::int
           from (select from nodes where zone = wanted.name and status = any($4) limit wanted.max) counted)
       end as count
     from unnest($1::text[], $2::text[], $3::int[]) with ordinality as wanted(scope, name, max, ordinal)
     order by wanted.ordinal`,
    [scopes.map(({ scope }) => scope), scopes.map(({ name }) => name), scopes.map(({ max }) => max), statuses],
    { prepared: true },
  );
  return rows.map((row) => row.count);
}

export async function countPopulation(
  db: Queryable,
  { scope, name }: Scope,
  statuses: readonly NodeStatus[],
): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    `select coalesce(sum(change), 0)::int as count
     from counts
     where of = 'nodes'
       and ${scope === 'pool' ? 'pool' : 'zone'} = $1
       and status = any($2)`,
    [name, statuses],
  );
  return row?.count ?? 0;
}

export interface BrakeState {
  /** Counts of the rule's recent verdicts. */
  recent: ScopeCount[];
  poolPolicies: Map<string, Partial<BrakePolicy> & { isObserveOnly: boolean }>;
  holds: HoldRow[];
}

interface PolicyRow {
  name: string;
  brake: Partial<BrakePolicy> | null;
  is_observe_only: boolean | null;
}

/** Reads the brake's state for a rule, in one statement unless the rule has an open hold. */
export async function readBrakeState(db: Queryable, rule: string, since: Date, pools: string[]): Promise<BrakeState> {
  const [row] = await db.query<{ recent: ScopeCount[] | null; policies: PolicyRow[] | null; holds: boolean }>(
    `select
       (select json_agg(recent) from (${recentSql}) recent) as recent,
       (select json_agg(policy)
        from (
          select
            pool.name,
            generation.document -> 'brake' as brake,
            generation.document ->> 'mode' = 'observe' as is_observe_only
          from pools pool
          join pool_generations generation
            on generation.pool = pool.name
            and generation.generation = pool.generation
          where pool.name = any($3)) policy) as policies,
       exists (select 1 from brake_holds where ended_at is null and rule = $1) as holds`,
    [rule, since, pools],
    { prepared: true },
  );
  return {
    recent: row?.recent ?? [],
    poolPolicies: new Map(
      row?.policies?.map(({ name, brake, is_observe_only }) => [
        name,
        { ...brake, isObserveOnly: is_observe_only ?? false },
      ]),
    ),
    holds: row?.holds ? await readOpenHolds(db, rule) : [],
  };
}

/** Marks nodes as held. The caller holds the row locks. */
export async function holdNodes(tx: Transaction, held: { node: AmendedNode; held: Held }[], now: Date): Promise<void> {
  await amendNodes(
    tx,
    held.map(({ node, held: hold }) => ({
      node,
      set: { held: hold },
      fact: {
        at: now,
        layer: 'rule',
        kind: 'node.held',
        summary: `${hold.rule} is held back until ${hold.held_until}: ${hold.reason}`,
        data: { rule: hold.rule, to: hold.to, kind: hold.kind, hold: hold.hold },
      },
    })),
  );
}

/** Selects held nodes whose hold has ended or whose verdict is no longer due. */
const endedNodeHolds = `
  select node.*
  from nodes node
  left join heartbeats beat on beat.node_instance_id = node.node_instance_id
  left join brake_holds hold on hold.hold_id = node.held ->> 'hold'
  left join maintenance_windows maintenance on maintenance.name = node.held ->> 'hold' and ${coversNodeNow('$1')}
  where node.held is not null
    and (
      -- The node sends heartbeats again. An agentless machine is held before it is stale, so its
      -- next inspection lifts the hold instead.
      (node.held ->> 'rule' = 'liveness'
        and node.held ->> 'kind' <> 'provider-away'
        and beat.last_seen_at + make_interval(secs => beat.stale_seconds) >= $1)
      -- The drift finding was closed.
      or (node.held ->> 'rule' = 'drift'
        and not exists (
          select 1
          from findings finding
          where finding.subject = node.node_id
            and finding.kind = 'drift'
            and finding.status = 'open'))
      or (node.held ->> 'kind' = 'mass-failure'
        and (hold.ended_at is not null or hold.resumed_at is not null))
      or (node.held ->> 'kind' = 'maintenance'
        and maintenance.name is null)
      -- Within 10 s after the hold expired, its rule neither decided nor renewed the hold.
      or (node.held ->> 'held_until')::timestamptz < $1::timestamptz - interval '10 seconds'
      or (node.held ->> 'kind' = 'self-fault'
        and ($3 or (node.held ->> 'held_until')::timestamptz <= $1)))
  order by node.node_id
  limit $2
  for no key update of node skip locked`;

/** If no replica lags (`isIngestCurrent`), holds for a fault of the control plane end too. */
export async function liftNodeHolds(
  tx: Transaction,
  now: Date,
  limit: number,
  isIngestCurrent: boolean,
): Promise<number> {
  const rows = await tx.query<NodeRow>(endedNodeHolds, [now, limit, isIngestCurrent]);
  await amendNodes(
    tx,
    rows.map((node) => ({
      node,
      set: { held: null },
      fact: { at: now, layer: 'rule', kind: 'node.held_over', summary: `${node.held?.rule} is no longer held back` },
    })),
  );
  return rows.length;
}

const endHoldsSql = `
  update brake_holds hold set ended_at = $1
  where hold.ended_at is null
    and hold.since < $2
    and (
      -- A hold on nodes ends when it holds no node. A resumed hold stays open until its nodes are
      -- decided; otherwise the next pass would hold them again.
      (hold.rule = any($3)
        and (hold.resumed_at is null or hold.resumed_at <= $4)
        and not exists (
          select 1
          from nodes node
          where node.held is not null
            and node.held ->> 'hold' = hold.hold_id))
      -- A hold on launches ends when it expires, is resumed, or a machine has come up.
      or (hold.rule <> all($3)
        and (
          hold.held_until <= $1
          or hold.resumed_at is not null
          or exists (
            select 1
            from boot_samples sample
            where sample.at > hold.since
              and sample.outcome in ('completed', 'late')
              and case when hold.scope = 'pool' then sample.pool = hold.name else sample.zone = hold.name end))))
  returning *`;

export interface HoldLimits {
  /** Holds opened later stay open, because they may not hold a node yet. */
  opened_before: Date;
  /** Holds resumed later stay open while their nodes are decided. */
  resumed_before: Date;
}

export async function endHolds(
  tx: Transaction,
  holdingRules: readonly string[],
  { opened_before, resumed_before }: HoldLimits,
  now: Date,
): Promise<HoldRow[]> {
  const rows = await tx.query<HoldRow>(endHoldsSql, [now, opened_before, holdingRules, resumed_before]);
  await recordEvidence(
    tx,
    rows.map((hold) => ({
      at: now,
      layer: 'rule',
      kind: 'brake.ended',
      summary: `the hold of ${hold.rule} in ${hold.scope} ${hold.name} ended`,
      data: { hold_id: hold.hold_id, rule: hold.rule, scope: hold.scope, name: hold.name },
    })),
  );
  return rows;
}

export async function resumeHolds(
  tx: Transaction,
  request: { hold_id?: string | undefined; reason: string; actor: Actor },
  now: Date,
): Promise<HoldRow[]> {
  const rows = await tx.query<HoldRow>(
    `update brake_holds set resumed_at = $1, resumed_by = $2
     where ended_at is null
       and resumed_at is null
       and ($3::text is null or hold_id = $3)
     returning *`,
    [now, request.actor, request.hold_id ?? null],
  );
  await recordEvidence(
    tx,
    rows.map((hold) => ({
      at: now,
      layer: 'operator',
      kind: 'brake.resumed',
      summary: `${request.actor.name} resumed ${hold.rule} in ${hold.scope} ${hold.name}: ${request.reason}`,
      data: { hold_id: hold.hold_id, reason: request.reason },
      actor: request.actor,
    })),
  );
  return rows;
}

/** Returns the oldest hold that pauses launches in this pool. */
export async function findLaunchHold(
  db: Queryable,
  pool: { name: string; zone: string | null },
  pausingRules: readonly string[],
  now: Date,
): Promise<HoldRow | undefined> {
  const [hold] = await db.query<HoldRow>(
    `select *
     from brake_holds
     where ended_at is null
       and resumed_at is null
       and held_until > $4
       and rule = any($3)
       and (
         (scope = 'pool' and name = $1)
         or (scope = 'zone' and name = $2))
     order by since
     limit 1`,
    [pool.name, pool.zone, pausingRules, now],
  );
  return hold;
}

/** How long tallies are kept. */
const tallySeconds = 3600;

export const deleteOldTally = async (db: Queryable, now: Date): Promise<void> => {
  await db.query('delete from brake_tally where at < $1', [secondsLater(now, -tallySeconds)]);
};
