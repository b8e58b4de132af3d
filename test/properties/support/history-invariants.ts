/** Invariants of the recorded changes as queries: proof before reuse, verdicts, windows, gaps. */
import { change, deadlineBefore, type InvariantQuery, list, node, ofRound, withDocument } from './invariant-sql.ts';
import { deadlineRules, negativeRules, observedRules } from './model.ts';

export const historyInvariants: InvariantQuery[] = [
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
