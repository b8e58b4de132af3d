/** The invariants of the model as queries: each returns the rows that break it. */
import { claims, deadlineRules, moving, negativeRules, observedRules, verdictRules } from './model.ts';
import type { Round } from './sequences.ts';

export const list = (words: readonly string[]) => `(${words.map((word) => `'${word}'`).join(', ')})`;
/** A change of status in this round. */
const ofRound = `changes.round = $2 and changes."to" is not null and changes.sets ? 'status'`;
const node = `node.node_id as id, node.pool, node.name`;
const allocation = `allocation.allocation_id as id, allocation.pool, null as name`;
const change = `changes.id, changes.pool, changes.name`;

/** Joins the pool's present document. */
const withDocument = `
      join pools pool on pool.name = node.pool
      join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation`;
const isHeld = `coalesce((node.held ->> 'held_until')::timestamptz > $1, false)`;
const isObserveOnly = `coalesce(generation.document ->> 'mode', '') = 'observe'`;

/** The deadline that was in force before a change. */
const deadlineBefore = `
      left join lateral (
        select before.sets ->> 'deadline_at' as deadline_at
        from changes before
        where before.id = changes.id
          and before.sets ? 'deadline_at'
          and (before.xid, before.seq) < (changes.xid, changes.seq)
        order by before.xid desc, before.seq desc
        limit 1
      ) force on true`;

export interface InvariantQuery {
  invariant: string;
  /** $1: now; $2: the round. Selects id, pool, name and `what` is wrong. */
  sql: string;
  /** Skips the query in such rounds. */
  unless?: (round: Round) => boolean;
}

export const invariantQueries: InvariantQuery[] = [
  {
    invariant: 'no limbo: a moving status has a deadline and a budget, others have none',
    sql: `
      select ${node}, node.status || ' with deadline ' || coalesce(deadline_at::text, 'none') as what
      from nodes node
      where (status in ${list(moving.node)})
        <> (deadline_at is not null and budget_seconds is not null and budget_source is not null)
      union all
      select ${allocation}, allocation.status || ' with deadline ' || coalesce(deadline_at::text, 'none')
      from allocations allocation
      where (status in ${list(moving.allocation)})
        <> (deadline_at is not null and budget_seconds is not null and budget_source is not null)`,
  },
  {
    invariant: 'no limbo: nothing stays past its deadline, unless it is held, observed, or owned by a release',
    sql: `
      select ${node}, 'still ' || node.status || ', due at ' || node.deadline_at as what
      from nodes node ${withDocument}
      where node.deadline_at <= $1
        and not ${isHeld}
        and not (${isObserveOnly} and node.would_have is not null)
        and not (node.status = 'cleaning' and exists (
          select 1 from allocations owner
          where owner.node_id = node.node_id
            and owner.status in ('releasing', 'release_failed')
        ))
        -- The next query checks these.
        and node.status <> 'starting'
      union all
      select ${allocation}, 'still ' || allocation.status || ', due at ' || deadline_at
      from allocations allocation
      where allocation.status in ('requested', 'releasing')
        and allocation.deadline_at <= $1`,
  },
  {
    // Silence is unknown while a replica lags, and while the last beat from before the start is
    // fresh.
    invariant: 'no limbo: start-up ends in time, unless it is held, observed, or not known to be silent',
    unless: ({ lagging }) => lagging,
    sql: `
      select ${node}, 'still starting, due at ' || node.deadline_at as what
      from nodes node ${withDocument}
      left join heartbeats beat on beat.node_instance_id = node.node_instance_id
      where node.status = 'starting'
        and node.deadline_at <= $1
        and not ${isHeld}
        and not (${isObserveOnly} and node.would_have is not null)
        and not coalesce((select max(ended_at) from ingest_gaps) + interval '30 seconds' >= $1, false)
        and not coalesce(
          beat.last_seen_at < node.status_since
            and beat.last_seen_at + make_interval(secs => beat.stale_seconds) >= $1,
          false
        )`,
  },
  {
    invariant: 'no limbo: serving nodes are supervised, and silence beyond the stale time is decided',
    unless: ({ lagging }) => lagging,
    sql: `
      select ${node}, 'serves, last heard ' || coalesce(beat.last_seen_at, node.registered_at)::text as what
      from nodes node ${withDocument}
      left join heartbeats beat on beat.node_instance_id = node.node_instance_id
      left join probes probe on probe.node_instance_id = node.node_instance_id
      where node.status in ('ready', 'degraded')
        and node.registered_at is not null
        and node.held is null
        and not ${isObserveOnly}
        and not coalesce(
          node.status = 'degraded'
            and probe.ok_at + interval '30 seconds' >= $1
            and probe.ok_at > beat.last_seen_at,
          false
        )
        -- A moment more than the stale time: beats of this very instant may not be stored yet.
        and greatest(
          beat.last_seen_at, node.status_since, node.registered_at, (select max(ended_at) from ingest_gaps)
        ) + interval '30.1 seconds' < $1`,
  },
  {
    invariant: 'one authority: every change is an edge of the model, by one of its causes',
    sql: `
      select ${change}, changes."from" || ' → ' || changes."to" || ' by ' || changes.by as what
      from changes
      where ${ofRound}
        and not exists (
          select 1 from edges
          where edges.entity = changes.entity
            and edges."from" = changes."from"
            and edges."to" = changes."to"
            and edges.by = changes.by
        )`,
  },
  {
    invariant: 'one authority: a verdict names its rule on the fact and on the row, and so does every quarantine',
    sql: `
      select ${change},
        'by ' || changes.by || ', but its verdict is ' || coalesce(changes.sets ->> 'verdict', 'none') as what
      from changes
      where ${ofRound}
        and case
          when changes.by in ${list(verdictRules)}
            or (changes.entity = 'node' and changes."to" = 'quarantined')
          then changes.sets #>> '{verdict,rule}' is distinct from changes.by
          else coalesce(changes.sets -> 'verdict', 'null') <> 'null'
        end`,
  },
  {
    invariant: 'no regress: reports of a node never take it back past its promotion',
    sql: `
      select ${change}, changes."from" || ' → ' || changes."to" || ' by ' || changes.by as what
      from changes
      where ${ofRound}
        and changes.entity = 'node'
        and changes.by in ${list(claims)}
        and changes."to" in ('provisioning', 'starting')
        and changes."from" in (
          'starting', 'ready', 'degraded', 'offline', 'draining', 'cleaning', 'quarantined', 'retired')`,
  },
  {
    invariant: 'exclusive: a node serves one allocation at most',
    sql: `
      select ${node}, count(*) || ' allocations hold it' as what
      from allocations allocation
      join nodes node on node.node_id = allocation.node_id
      where allocation.status in ('provisioning', 'active', 'releasing', 'release_failed')
      group by node.node_id
      having count(*) > 1`,
  },
  {
    invariant: 'allocations follow their nodes',
    sql: `
      select ${node}, 'is ' || node.status || ' while its allocation is ' || allocation.status as what
      from allocations allocation
      join nodes node on node.node_id = allocation.node_id
      where (
          allocation.status = 'provisioning'
          and node.status in ('ready', 'degraded', 'offline', 'failed', 'retired', 'quarantined')
        )
        or (allocation.status = 'active' and node.status in ('failed', 'retired'))`,
  },
  {
    invariant: 'allocations follow their nodes: an allocation that failed with its node is rescued with it',
    sql: `
      select ${change}, 'came back without ' || fallen.id || ', which failed together with it' as what
      from changes
      join lateral (
        select fall.at
        from changes fall
        where fall.id = changes.id
          and fall."to" = 'failed'
          and fall.sets ? 'status'
          and (fall.xid, fall.seq) < (changes.xid, changes.seq)
        order by fall.xid desc, fall.seq desc
        limit 1
      ) fall on true
      join changes fallen
        on fallen.entity = 'allocation'
        and fallen.node = changes.id
        and fallen.at = fall.at
        and fallen."to" = 'failed'
      where ${ofRound}
        and changes.by = 'late-registration'
        -- It was neither rescued at this moment nor changed before.
        and not exists (
          select 1 from changes since
          where since.id = fallen.id
            and since.sets ? 'status'
            and (since.xid, since.seq) > (fallen.xid, fallen.seq)
            and (
              (since.by = 'rescue' and since.at = changes.at)
              or (since.xid, since.seq) < (changes.xid, changes.seq)
            )
        )`,
  },
  {
    invariant: 'allocations follow their nodes: a change caused by the node happens at the moment of the cause',
    sql: `
      select ${change}, changes."to" || ' by ' || changes.by || ', but its node did not change' as what
      from changes
      where ${ofRound}
        and changes.entity = 'allocation'
        and changes.by in ('node-failed', 'node-lost', 'rescue')
        and not exists (
          select 1 from changes cause
          where cause.id = changes.node
            and cause.at = changes.at
            and cause.sets ? 'status'
            and case changes.by
              when 'rescue' then cause.by in ('late-registration', 're-enroll')
              else cause."to" in ('failed', 'quarantined', 'retired')
            end
        )`,
  },
  {
    invariant: 'proof before reuse: a node leaves cleaning only after a proof since it entered',
    sql: `
      select ${change}, 'left cleaning for ' || changes."to" || ' without proof' as what
      from changes
      where ${ofRound}
        and changes.entity = 'node'
        and changes."from" = 'cleaning'
        and changes."to" <> 'quarantined'
        and not exists (
          select 1 from evidence proof
          where proof.node_id = changes.id
            and proof.kind like 'proof.%'
            and (proof.xid, proof.seq) < (changes.xid, changes.seq)
            and (proof.xid, proof.seq) > (
              select entered.xid, entered.seq
              from changes entered
              where entered.id = changes.id
                and entered."to" = 'cleaning'
                and (entered.xid, entered.seq) < (changes.xid, changes.seq)
              order by entered.xid desc, entered.seq desc
              limit 1
            )
        )`,
  },
  {
    invariant: 'proof before reuse: an instance that served another allocation is proven clean or revoked first',
    sql: `
      select ${change},
        'gets ' || (changes.sets ->> 'node_id') || ', which served ' || served.id
          || ' and was not proven clean since' as what
      from changes
      join changes served
        on served.entity = 'allocation'
        and served.sets ->> 'node_id' is null
        and served."to" = 'active'
        and served.id <> changes.id
        -- The node that it was last assigned.
        and (
          select assigned.sets ->> 'node_id'
          from changes assigned
          where assigned.id = served.id
            and assigned.sets ? 'node_id'
            and (assigned.xid, assigned.seq) < (served.xid, served.seq)
          order by assigned.xid desc, assigned.seq desc
          limit 1
        ) = changes.sets ->> 'node_id'
      where ${ofRound}
        and changes.entity = 'allocation'
        and changes."to" = 'provisioning'
        and changes.sets ->> 'node_id' is not null
        and served.pool = changes.pool
        and (served.xid, served.seq) < (changes.xid, changes.seq)
        and not exists (
          select 1 from evidence proof
          where proof.node_id = changes.sets ->> 'node_id'
            and (proof.kind like 'proof.%' or proof.kind = 'instance.revoked')
            and (proof.xid, proof.seq) > (served.xid, served.seq)
            and (proof.xid, proof.seq) < (changes.xid, changes.seq)
        )`,
  },
  {
    invariant: 'exactly one verdict per cause: each change starts where the one before it ended',
    sql: `
      select *
      from (
        select ${change}, changes.round,
          'from ' || changes."from" || ', but it was ' || coalesce(lag(changes."to") over history, 'new') as what,
          changes."from" = coalesce(lag(changes."to") over history, 'new') as fits
        from changes
        where changes."to" is not null
          and changes.sets ? 'status'
          and changes.id in (select id from changes where ${ofRound})
        window history as (partition by changes.id order by changes.xid, changes.seq)
      ) chain
      where round = $2
        and not fits`,
  },
  {
    // An operation that gives up a clean-up early uses the same rule with an actor, without a
    // deadline.
    invariant: 'exactly one verdict per cause: a judged deadline is the one in force, and has passed',
    sql: `
      select ${change},
        changes.by || ' at ' || changes.at
          || ' on deadline ' || coalesce(changes.evidence ->> 'deadline_at', 'none')
          || ', in force: ' || coalesce(force.deadline_at, 'none') as what
      from changes ${deadlineBefore}
      where ${ofRound}
        and changes.entity = 'node'
        and changes.by in ${list(deadlineRules)}
        and not changes.actor
        and (
          (changes.evidence ->> 'deadline_at')::timestamptz is distinct from force.deadline_at::timestamptz
          or not coalesce(force.deadline_at::timestamptz <= changes.at, false)
        )`,
  },
  {
    invariant: 'a rescue happens inside its window',
    sql: `
      select ${change}, 'rescued at ' || changes.at || ', its window ended ' || force.deadline_at as what
      from changes ${deadlineBefore}
      where ${ofRound}
        and changes.by = 'late-registration'
        and not coalesce(force.deadline_at::timestamptz >= changes.at, false)`,
  },
  {
    invariant: 'exactly one verdict per cause: an observe-only verdict is recorded once',
    sql: `
      select changes.id, min(changes.pool) as pool, min(changes.name) as name,
        count(*) || ' times would have by ' || changes.by as what
      from changes
      where changes.sets ? 'would_have'
        and changes."to" is not null
        and not changes.sets ? 'status'
        and changes.by in ${list(deadlineRules)}
      group by changes.id, changes.by, changes."from", changes.evidence ->> 'deadline_at', changes.instance
      having count(*) > 1`,
  },
  {
    invariant: 'a maintenance window holds negative verdicts',
    sql: `
      select ${change}, changes.by || ' during ' || work.name as what
      from changes
      join nodes node on node.node_id = changes.id
      join maintenance_windows work
        on work.starts_at <= changes.at
        and work.ends_at > changes.at
        and coalesce(work.pool, node.pool) = node.pool
        and coalesce(work.zone, node.zone, '') = coalesce(node.zone, '')
        and node.labels @> work.labels
      where ${ofRound}
        and not changes.actor
        and changes.by in ${list(negativeRules)}`,
  },
  {
    invariant: 'rules change nothing in an observe-only pool',
    sql: `
      select ${change}, changes."from" || ' → ' || changes."to" || ' by ' || changes.by as what
      from changes
      join nodes node on node.node_id = changes.id ${withDocument}
      where ${ofRound}
        and not changes.actor
        and generation.document ->> 'mode' = 'observe'
        and changes.by in ${list(observedRules)}`,
  },
  {
    invariant: 'a held or observe-only verdict is an edge from the present status',
    sql: `
      select ${node}, 'is ' || node.status || ', held: ' || node.held::text as what
      from nodes node
      where node.held is not null
        and not exists (
          select 1 from edges
          where edges.entity = 'node'
            and edges."from" = node.status
            and edges."to" = node.held ->> 'to'
            and edges.by = node.held ->> 'rule'
        )
      union all
      select ${node}, 'is ' || node.status || ', would have: ' || node.would_have::text
      from nodes node
      where node.would_have is not null
        and not exists (
          select 1 from edges
          where edges.entity = 'node'
            and edges."from" = node.status
            and edges."to" = node.would_have ->> 'to'
            and edges.by = node.would_have ->> 'rule'
        )`,
  },
  {
    invariant: 'an ingest gap moves a deadline once',
    sql: `
      select changes.id, min(changes.pool) as pool, min(changes.name) as name,
        'moved ' || count(*) || ' times by the gap of ' || changes.gap as what
      from changes
      where changes.gap is not null
      group by changes.id, changes.gap
      having count(*) > 1`,
  },
  {
    invariant: 'the columns of a task agree with its status',
    sql: `
      select ${node}, 'its task is ' || task.status as what
      from tasks task
      join nodes node on node.node_id = task.node_id
      where (task.status = 'leased') <> (task.lease_until is not null)
        or (task.status in ('succeeded', 'failed')) <> (task.finished_at is not null)
        or (task.status in ('queued', 'leased') and task.expires_at <= $1)`,
  },
];
