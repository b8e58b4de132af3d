/**
 * Invariants as queries: of the current rows, of single status changes, and of how the changes of a
 * node fit those of its allocation.
 */
import {
  allocationColumns,
  changeColumns,
  type InvariantQuery,
  isHeld,
  isObserveOnly,
  isStatusChangeOfRound,
  joinPoolDocument,
  nodeColumns,
  sqlList,
} from './invariant-sql.ts';
import { machineCauses, statusesWithDeadline, verdictRules } from './model.ts';

export const statusInvariants: InvariantQuery[] = [
  {
    invariant: 'deadlines: a row has a deadline and a budget exactly while its status needs one',
    sql: `
      select ${nodeColumns}, node.status || ' with deadline ' || coalesce(deadline_at::text, 'none') as detail
      from nodes node
      where (status in ${sqlList(statusesWithDeadline.node)})
        <> (deadline_at is not null and budget_seconds is not null and budget_source is not null)
      union all
      select ${allocationColumns}, allocation.status || ' with deadline ' || coalesce(deadline_at::text, 'none')
      from allocations allocation
      where (status in ${sqlList(statusesWithDeadline.allocation)})
        <> (deadline_at is not null and budget_seconds is not null and budget_source is not null)`,
  },
  {
    invariant: 'deadlines: no row stays past its deadline, unless its verdict is withheld or a release owns the node',
    sql: `
      select ${nodeColumns}, 'still ' || node.status || ', due at ' || node.deadline_at as detail
      from nodes node ${joinPoolDocument}
      where node.deadline_at <= $1
        and not ${isHeld}
        and not (${isObserveOnly} and node.would_have is not null)
        and not (node.status = 'cleaning' and exists (
          select 1 from allocations owner
          where owner.node_id = node.node_id
            and owner.status in ('releasing', 'release_failed')
        ))
        -- The next query checks starting nodes.
        and node.status <> 'starting'
      union all
      select ${allocationColumns}, 'still ' || allocation.status || ', due at ' || deadline_at
      from allocations allocation
      where allocation.status in ('requested', 'releasing')
        and allocation.deadline_at <= $1`,
  },
  {
    // Silence is uncertain while a replica lags, shortly after an ingest gap, or while a heartbeat
    // from before the node became `starting` is fresh.
    invariant: 'deadlines: a silent node does not stay starting past its deadline, unless its verdict is withheld',
    unless: ({ isLagging }) => isLagging,
    sql: `
      select ${nodeColumns}, 'still starting, due at ' || node.deadline_at as detail
      from nodes node ${joinPoolDocument}
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
    invariant: 'supervision: no serving node stays silent beyond the stale time',
    unless: ({ isLagging }) => isLagging,
    sql: `
      select ${nodeColumns}, 'serves, last heartbeat ' || coalesce(beat.last_seen_at, node.registered_at)::text as detail
      from nodes node ${joinPoolDocument}
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
        -- 0.1 s more than the stale time, because heartbeats of this instant may not be stored yet.
        and greatest(
          beat.last_seen_at, node.status_since, node.registered_at, (select max(ended_at) from ingest_gaps)
        ) + interval '30.1 seconds' < $1`,
  },
  {
    invariant: 'transitions: every change is an edge of the model with one of its causes',
    sql: `
      select ${changeColumns}, changes."from" || ' → ' || changes."to" || ' by ' || changes.by as detail
      from changes
      where ${isStatusChangeOfRound}
        and not exists (
          select 1 from edges
          where edges.entity = changes.entity
            and edges."from" = changes."from"
            and edges."to" = changes."to"
            and edges.by = changes.by
        )`,
  },
  {
    invariant: 'verdicts: a verdict and a quarantine record their rule, and no other change sets a verdict',
    sql: `
      select ${changeColumns},
        'by ' || changes.by || ', but its verdict is ' || coalesce(changes.sets ->> 'verdict', 'none') as detail
      from changes
      where ${isStatusChangeOfRound}
        and case
          when changes.by in ${sqlList(verdictRules)}
            or (changes.entity = 'node' and changes."to" = 'quarantined')
          then changes.sets #>> '{verdict,rule}' is distinct from changes.by
          else coalesce(changes.sets -> 'verdict', 'null') <> 'null'
        end`,
  },
  {
    invariant: 'reports: no request of a machine moves its node back to provisioning or starting, unless it failed',
    sql: `
      select ${changeColumns}, changes."from" || ' → ' || changes."to" || ' by ' || changes.by as detail
      from changes
      where ${isStatusChangeOfRound}
        and changes.entity = 'node'
        and changes.by in ${sqlList(machineCauses)}
        and changes."to" in ('provisioning', 'starting')
        and changes."from" in (
          'starting', 'ready', 'degraded', 'offline', 'draining', 'cleaning', 'quarantined', 'retired')`,
  },
  {
    invariant: 'exclusive use: at most one allocation holds a node',
    sql: `
      select ${nodeColumns}, count(*) || ' allocations hold the node' as detail
      from allocations allocation
      join nodes node on node.node_id = allocation.node_id
      where allocation.status in ('provisioning', 'active', 'releasing', 'release_failed')
      group by node.node_id
      having count(*) > 1`,
  },
  {
    invariant: 'pairing: the status of an allocation fits the status of its node',
    sql: `
      select ${nodeColumns}, 'is ' || node.status || ' while its allocation is ' || allocation.status as detail
      from allocations allocation
      join nodes node on node.node_id = allocation.node_id
      where (
          allocation.status = 'provisioning'
          and node.status in ('ready', 'degraded', 'offline', 'failed', 'retired', 'quarantined')
        )
        or (allocation.status = 'active' and node.status in ('failed', 'retired'))`,
  },
  {
    invariant: 'pairing: a late registration rescues the allocation that failed together with the node',
    sql: `
      select ${changeColumns}, 'came back without ' || failed_allocation.id || ', which failed together with the node' as detail
      from changes
      join lateral (
        select failure.at
        from changes failure
        where failure.id = changes.id
          and failure."to" = 'failed'
          and failure.sets ? 'status'
          and (failure.xid, failure.seq) < (changes.xid, changes.seq)
        order by failure.xid desc, failure.seq desc
        limit 1
      ) node_failure on true
      join changes failed_allocation
        on failed_allocation.entity = 'allocation'
        and failed_allocation.node = changes.id
        and failed_allocation.at = node_failure.at
        and failed_allocation."to" = 'failed'
      where ${isStatusChangeOfRound}
        and changes.by = 'late-registration'
        -- The allocation was not rescued with the node, and did not change in the meantime either.
        and not exists (
          select 1 from changes later
          where later.id = failed_allocation.id
            and later.sets ? 'status'
            and (later.xid, later.seq) > (failed_allocation.xid, failed_allocation.seq)
            and (
              (later.by = 'rescue' and later.at = changes.at)
              or (later.xid, later.seq) < (changes.xid, changes.seq)
            )
        )`,
  },
  {
    invariant: 'pairing: an allocation change caused by a node change has the same timestamp',
    sql: `
      select ${changeColumns}, changes."to" || ' by ' || changes.by || ', but its node did not change' as detail
      from changes
      where ${isStatusChangeOfRound}
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
