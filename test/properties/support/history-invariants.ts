/** The invariants of the recorded changes, as queries. */
import {
  changeColumns,
  type InvariantQuery,
  isStatusChangeOfRound,
  joinPoolDocument,
  joinPreviousDeadline,
  nodeColumns,
  sqlList,
} from './invariant-sql.ts';
import { deadlineRules, negativeRules, observeOnlyRules } from './model.ts';

export const historyInvariants: InvariantQuery[] = [
  {
    invariant: 'proof before reuse: a node leaves cleaning for a status other than quarantined only after a proof',
    sql: `
      select ${changeColumns}, 'left cleaning for ' || changes."to" || ' without proof' as detail
      from changes
      where ${isStatusChangeOfRound}
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
    invariant:
      'proof before reuse: a machine that served another allocation is assigned only after a proof or revocation',
    sql: `
      select ${changeColumns},
        'gets ' || (changes.sets ->> 'node_id') || ', which served ' || served.id
          || ' and was not proven clean since' as detail
      from changes
      join changes served
        on served.entity = 'allocation'
        and served.sets ->> 'node_id' is null
        and served."to" = 'active'
        and served.id <> changes.id
        -- Its last assigned node is the node of this change.
        and (
          select assigned.sets ->> 'node_id'
          from changes assigned
          where assigned.id = served.id
            and assigned.sets ? 'node_id'
            and (assigned.xid, assigned.seq) < (served.xid, served.seq)
          order by assigned.xid desc, assigned.seq desc
          limit 1
        ) = changes.sets ->> 'node_id'
      where ${isStatusChangeOfRound}
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
    invariant: 'one verdict per cause: each change starts from the status that the previous change set',
    sql: `
      select *
      from (
        select ${changeColumns}, changes.round,
          'from ' || changes."from" || ', but it was ' || coalesce(lag(changes."to") over history, 'new') as detail,
          changes."from" = coalesce(lag(changes."to") over history, 'new') as fits
        from changes
        where changes."to" is not null
          and changes.sets ? 'status'
          and changes.id in (select id from changes where ${isStatusChangeOfRound})
        window history as (partition by changes.id order by changes.xid, changes.seq)
      ) chain
      where round = $2
        and not fits`,
  },
  {
    // An operation that gives up on a clean-up early cites the same rule, but with an actor and
    // without a deadline.
    invariant: 'one verdict per cause: a deadline rule decides on the deadline in force, after it has passed',
    sql: `
      select ${changeColumns},
        changes.by || ' at ' || changes.at
          || ' on deadline ' || coalesce(changes.evidence ->> 'deadline_at', 'none')
          || ', in force: ' || coalesce(previous.deadline_at, 'none') as detail
      from changes ${joinPreviousDeadline}
      where ${isStatusChangeOfRound}
        and changes.entity = 'node'
        and changes.by in ${sqlList(deadlineRules)}
        and not changes.actor
        and (
          (changes.evidence ->> 'deadline_at')::timestamptz is distinct from previous.deadline_at::timestamptz
          or not coalesce(previous.deadline_at::timestamptz <= changes.at, false)
        )`,
  },
  {
    invariant: 'rescue: a late registration brings a node back only inside its rescue window',
    sql: `
      select ${changeColumns}, 'rescued at ' || changes.at || ', after its rescue window ended at ' || previous.deadline_at as detail
      from changes ${joinPreviousDeadline}
      where ${isStatusChangeOfRound}
        and changes.by = 'late-registration'
        and not coalesce(previous.deadline_at::timestamptz >= changes.at, false)`,
  },
  {
    invariant: 'one verdict per cause: an observe-only verdict is recorded once',
    sql: `
      select changes.id, min(changes.pool) as pool, min(changes.name) as name,
        count(*) || ' observe-only verdicts of ' || changes.by as detail
      from changes
      where changes.sets ? 'would_have'
        and changes."to" is not null
        and not changes.sets ? 'status'
        and changes.by in ${sqlList(deadlineRules)}
      group by changes.id, changes.by, changes."from", changes.evidence ->> 'deadline_at', changes.instance
      having count(*) > 1`,
  },
  {
    invariant: 'maintenance: a maintenance window holds negative verdicts',
    sql: `
      select ${changeColumns}, changes.by || ' during ' || maintenance.name as detail
      from changes
      join nodes node on node.node_id = changes.id
      join maintenance_windows maintenance
        on maintenance.starts_at <= changes.at
        and maintenance.ends_at > changes.at
        and coalesce(maintenance.pool, node.pool) = node.pool
        and coalesce(maintenance.zone, node.zone, '') = coalesce(node.zone, '')
        and node.labels @> maintenance.labels
      where ${isStatusChangeOfRound}
        and not changes.actor
        and changes.by in ${sqlList(negativeRules)}`,
  },
  {
    invariant: 'observe-only: rules change no node in an observe-only pool',
    sql: `
      select ${changeColumns}, changes."from" || ' → ' || changes."to" || ' by ' || changes.by as detail
      from changes
      join nodes node on node.node_id = changes.id ${joinPoolDocument}
      where ${isStatusChangeOfRound}
        and not changes.actor
        and generation.document ->> 'mode' = 'observe'
        and changes.by in ${sqlList(observeOnlyRules)}`,
  },
  {
    invariant: 'verdicts: a held or observe-only verdict is an edge from the current status',
    sql: `
      select ${nodeColumns}, 'is ' || node.status || ', held: ' || node.held::text as detail
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
      select ${nodeColumns}, 'is ' || node.status || ', would have: ' || node.would_have::text
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
    invariant: 'ingest gaps: a gap moves a deadline at most once',
    sql: `
      select changes.id, min(changes.pool) as pool, min(changes.name) as name,
        'its deadline was moved ' || count(*) || ' times by the gap of ' || changes.gap as detail
      from changes
      where changes.gap is not null
      group by changes.id, changes.gap
      having count(*) > 1`,
  },
  {
    invariant: 'tasks: the columns of a task agree with its status, and no open task is past its expiry',
    sql: `
      select ${nodeColumns}, 'its task is ' || task.status as detail
      from tasks task
      join nodes node on node.node_id = task.node_id
      where (task.status = 'leased') <> (task.lease_until is not null)
        or (task.status in ('succeeded', 'failed')) <> (task.finished_at is not null)
        or (task.status in ('queued', 'leased') and task.expires_at <= $1)`,
  },
];
