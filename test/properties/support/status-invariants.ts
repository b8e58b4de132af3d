/** Invariants of the present rows as queries: limbo, authority, exclusive use, paired changes. */
import {
  allocation,
  change,
  type InvariantQuery,
  isHeld,
  isObserveOnly,
  list,
  node,
  ofRound,
  withDocument,
} from './invariant-sql.ts';
import { claims, moving, verdictRules } from './model.ts';

export const statusInvariants: InvariantQuery[] = [
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
];
