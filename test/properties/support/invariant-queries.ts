/** The invariants of the model as questions to the store: each answers the rows that break it. Data. */
import { claims, deadlineRules, moving, negativeRules, observedRules, verdictRules } from './model.ts';
import type { Round } from './sequences.ts';

export const list = (words: readonly string[]) => `(${words.map((word) => `'${word}'`).join(', ')})`;
/** A change of status that was told in this round. */
const change = `told.round = $2 and told."to" is not null and told.sets ? 'status'`;
const node = `node.node_id as id, node.pool, node.name`;
const allocation = `allocation.allocation_id as id, allocation.pool, null as name`;
const fact = `told.id, told.pool, told.name`;

export interface Question {
  invariant: string;
  /** $1: now; $2: the round. Answers id, pool, name and what is wrong. */
  sql: string;
  /** Not asked in rounds of which this is true. */
  unless?: (round: Round) => boolean;
}

export const questions: Question[] = [
  {
    invariant: 'no limbo: what moves has a deadline and a budget, what does not has none',
    sql: `
      select ${node}, node.status || ' with deadline ' || coalesce(deadline_at::text, 'none') as what from nodes node
      where (status in ${list(moving.node)}) <> (deadline_at is not null and budget_seconds is not null and budget_source is not null)
      union all
      select ${allocation}, allocation.status || ' with deadline ' || coalesce(deadline_at::text, 'none') from allocations allocation
      where (status in ${list(moving.allocation)}) <> (deadline_at is not null and budget_seconds is not null and budget_source is not null)`,
  },
  {
    invariant: 'no limbo: nothing stays past its deadline, unless it is held or observed, or a release owns it',
    sql: `
      select ${node}, 'still ' || node.status || ', due at ' || node.deadline_at as what from nodes node
      join pools pool on pool.name = node.pool
      join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
      where node.deadline_at <= $1 and not coalesce((node.held ->> 'held_until')::timestamptz > $1, false)
        and not (coalesce(generation.document ->> 'mode', '') = 'observe' and node.would_have is not null)
        and not (node.status = 'cleaning' and exists (select 1 from allocations owner
          where owner.node_id = node.node_id and owner.status in ('releasing', 'release_failed')))
        and node.status <> 'starting'
      union all
      select ${allocation}, 'still ' || allocation.status || ', due at ' || deadline_at from allocations allocation
      where allocation.status in ('requested', 'releasing') and allocation.deadline_at <= $1`,
  },
  {
    // Whether it is silent cannot be said while not everything was heard, nor while its last beat, from before its start, is not stale.
    invariant:
      'no limbo: start-up ends when it should be over, unless it is held or observed, or not known to be silent',
    unless: ({ lagging }) => lagging,
    sql: `
      select ${node}, 'still starting, due at ' || node.deadline_at as what from nodes node
      join pools pool on pool.name = node.pool
      join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
      left join heartbeats beat on beat.node_instance_id = node.node_instance_id
      where node.status = 'starting' and node.deadline_at <= $1 and not coalesce((node.held ->> 'held_until')::timestamptz > $1, false)
        and not (coalesce(generation.document ->> 'mode', '') = 'observe' and node.would_have is not null)
        and not coalesce((select max(ended_at) from ingest_gaps) + interval '30 seconds' >= $1, false)
        and not coalesce(beat.last_seen_at < node.status_since and beat.last_seen_at + make_interval(secs => beat.stale_seconds) >= $1, false)`,
  },
  {
    // A moment more: what was heard at this very instant may not be stored yet, and then nobody may judge.
    invariant: 'no limbo: what serves is supervised, and silence beyond the stale time is decided on',
    unless: ({ lagging }) => lagging,
    sql: `
      select ${node}, 'serves, last heard ' || coalesce(beat.last_seen_at, node.registered_at)::text as what from nodes node
      join pools pool on pool.name = node.pool
      join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
      left join heartbeats beat on beat.node_instance_id = node.node_instance_id
      left join probes probe on probe.node_instance_id = node.node_instance_id
      where node.status in ('ready', 'degraded') and node.registered_at is not null and node.held is null
        and coalesce(generation.document ->> 'mode', '') <> 'observe'
        and not coalesce(node.status = 'degraded' and probe.ok_at + interval '30 seconds' >= $1 and probe.ok_at > beat.last_seen_at, false)
        and greatest(beat.last_seen_at, node.status_since, node.registered_at, (select max(ended_at) from ingest_gaps)) + interval '30.1 seconds' < $1`,
  },
  {
    invariant: 'one authority: every change is an edge of the model, by a cause that stands on it',
    sql: `
      select ${fact}, told."from" || ' → ' || told."to" || ' by ' || told.by as what from told where ${change}
        and not exists (select 1 from edges where edges.entity = told.entity and edges."from" = told."from" and edges."to" = told."to" and edges.by = told.by)`,
  },
  {
    invariant:
      'one authority: a verdict names its one rule, on the fact and on the row; and what is set aside has one, whoever set it aside',
    sql: `
      select ${fact}, 'by ' || told.by || ', but its verdict is ' || coalesce(told.sets ->> 'verdict', 'none') as what from told where ${change}
        and case when told.by in ${list(verdictRules)} or (told.entity = 'node' and told."to" = 'quarantined') then told.sets #>> '{verdict,rule}' is distinct from told.by
          else coalesce(told.sets -> 'verdict', 'null') <> 'null' end`,
  },
  {
    invariant: 'no regress: what a machine says never takes it back past its promotion',
    sql: `
      select ${fact}, told."from" || ' → ' || told."to" || ' by ' || told.by as what from told where ${change} and told.entity = 'node'
        and told.by in ${list(claims)} and told."to" in ('provisioning', 'starting') and told."from" in ('starting', 'ready', 'degraded', 'offline', 'draining', 'cleaning', 'quarantined', 'retired')`,
  },
  {
    invariant: 'exclusive: a node serves one allocation at most',
    sql: `
      select ${node}, count(*) || ' allocations hold it' as what from allocations allocation join nodes node on node.node_id = allocation.node_id
      where allocation.status in ('provisioning', 'active', 'releasing', 'release_failed') group by node.node_id having count(*) > 1`,
  },
  {
    invariant: 'allocations follow their nodes',
    sql: `
      select ${node}, 'is ' || node.status || ' while its allocation is ' || allocation.status as what from allocations allocation
      join nodes node on node.node_id = allocation.node_id
      where (allocation.status = 'provisioning' and node.status in ('ready', 'degraded', 'offline', 'failed', 'retired', 'quarantined'))
        or (allocation.status = 'active' and node.status in ('failed', 'retired'))`,
  },
  {
    invariant: 'allocations follow their nodes: who fell together with a machine comes back together with it',
    sql: `
      select ${fact}, 'came back without ' || fallen.id || ', which fell together with it' as what from told
      join lateral (select fall.at from told fall where fall.id = told.id and fall."to" = 'failed' and fall.sets ? 'status'
        and (fall.xid, fall.seq) < (told.xid, told.seq) order by fall.xid desc, fall.seq desc limit 1) fall on true
      join told fallen on fallen.entity = 'allocation' and fallen.node = told.id and fallen.at = fall.at and fallen."to" = 'failed'
      where ${change} and told.by = 'late-registration' and not exists (
        select 1 from told since where since.id = fallen.id and since.sets ? 'status' and (since.xid, since.seq) > (fallen.xid, fallen.seq)
          and ((since.by = 'rescue' and since.at = told.at) or (since.xid, since.seq) < (told.xid, told.seq)))`,
  },
  {
    invariant: 'allocations follow their nodes: what their machine is said to have caused, it caused at that moment',
    sql: `
      select ${fact}, told."to" || ' by ' || told.by || ', but its machine did not change' as what from told
      where ${change} and told.entity = 'allocation' and told.by in ('node-failed', 'node-lost', 'rescue') and not exists (
        select 1 from told cause where cause.id = told.node and cause.at = told.at and cause.sets ? 'status'
          and case told.by when 'rescue' then cause.by in ('late-registration', 're-enroll') else cause."to" in ('failed', 'quarantined', 'retired') end)`,
  },
  {
    invariant: 'proof before reuse: whatever leaves cleaning was proven clean or gone since it came there',
    sql: `
      select ${fact}, 'left cleaning for ' || told."to" || ' without proof' as what from told
      where ${change} and told.entity = 'node' and told."from" = 'cleaning' and told."to" <> 'quarantined' and not exists (
        select 1 from evidence proof where proof.node_id = told.id and proof.kind like 'proof.%' and (proof.xid, proof.seq) < (told.xid, told.seq)
          and (proof.xid, proof.seq) > (select entered.xid, entered.seq from told entered where entered.id = told.id and entered."to" = 'cleaning'
            and (entered.xid, entered.seq) < (told.xid, told.seq) order by entered.xid desc, entered.seq desc limit 1))`,
  },
  {
    invariant:
      'proof before reuse: nobody gets a machine whose instance served another and was not proven clean or cut off since',
    sql: `
      select ${fact}, 'gets ' || (told.sets ->> 'node_id') || ', which served ' || served.id || ' and was not proven clean since' as what from told
      join told served on served.entity = 'allocation' and served.sets ->> 'node_id' is null and served."to" = 'active' and served.id <> told.id
        and (select assigned.sets ->> 'node_id' from told assigned where assigned.id = served.id and assigned.sets ? 'node_id'
          and (assigned.xid, assigned.seq) < (served.xid, served.seq) order by assigned.xid desc, assigned.seq desc limit 1) = told.sets ->> 'node_id'
      where ${change} and told.entity = 'allocation' and told."to" = 'provisioning' and told.sets ->> 'node_id' is not null
        and served.pool = told.pool and (served.xid, served.seq) < (told.xid, told.seq) and not exists (
          select 1 from evidence proof where proof.node_id = told.sets ->> 'node_id' and (proof.kind like 'proof.%' or proof.kind = 'instance.revoked')
            and (proof.xid, proof.seq) > (served.xid, served.seq) and (proof.xid, proof.seq) < (told.xid, told.seq))`,
  },
  {
    invariant: 'exactly one verdict per cause: each change starts where the one before it ended',
    sql: `
      select * from (
        select ${fact}, told.round, 'from ' || told."from" || ', but it stood at ' ||
          coalesce(lag(told."to") over way, 'new') as what, told."from" = coalesce(lag(told."to") over way, 'new') as fits
        from told where told."to" is not null and told.sets ? 'status' and told.id in (select id from told where ${change})
        window way as (partition by told.id order by told.xid, told.seq)) chain where round = $2 and not fits`,
  },
  {
    // An operation that gives a clean-up up before its deadline says so by the same rule, and judges no deadline.
    invariant: 'exactly one verdict per cause: a deadline that is judged is the deadline in force, and it has passed',
    sql: `
      select ${fact}, told.by || ' at ' || told.at || ' on deadline ' || coalesce(told.evidence ->> 'deadline_at', 'none') || ', in force: ' || coalesce(force.deadline_at, 'none') as what
      from told left join lateral (select before.sets ->> 'deadline_at' as deadline_at from told before where before.id = told.id and before.sets ? 'deadline_at'
        and (before.xid, before.seq) < (told.xid, told.seq) order by before.xid desc, before.seq desc limit 1) force on true
      where ${change} and told.entity = 'node' and told.by in ${list(deadlineRules)} and not told.actor
        and ((told.evidence ->> 'deadline_at')::timestamptz is distinct from force.deadline_at::timestamptz or not coalesce(force.deadline_at::timestamptz <= told.at, false))`,
  },
  {
    invariant: 'a rescue happens inside its window',
    sql: `
      select ${fact}, 'rescued at ' || told.at || ', its window ended ' || force.deadline_at as what
      from told left join lateral (select before.sets ->> 'deadline_at' as deadline_at from told before where before.id = told.id and before.sets ? 'deadline_at'
        and (before.xid, before.seq) < (told.xid, told.seq) order by before.xid desc, before.seq desc limit 1) force on true
      where ${change} and told.by = 'late-registration' and not coalesce(force.deadline_at::timestamptz >= told.at, false)`,
  },
  {
    invariant: 'exactly one verdict per cause: what would have been decided is told once',
    sql: `
      select told.id, min(told.pool) as pool, min(told.name) as name, count(*) || ' times would have by ' || told.by as what from told
      where told.sets ? 'would_have' and told."to" is not null and not told.sets ? 'status' and told.by in ${list(deadlineRules)}
      group by told.id, told.by, told."from", told.evidence ->> 'deadline_at', told.instance having count(*) > 1`,
  },
  {
    invariant: 'a maintenance window holds negative verdicts',
    sql: `
      select ${fact}, told.by || ' during ' || work.name as what from told join nodes node on node.node_id = told.id
      join maintenance_windows work on work.starts_at <= told.at and work.ends_at > told.at and coalesce(work.pool, node.pool) = node.pool
        and coalesce(work.zone, node.zone, '') = coalesce(node.zone, '') and node.labels @> work.labels
      where ${change} and not told.actor and told.by in ${list(negativeRules)}`,
  },
  {
    invariant: 'an observed pool is changed by no rule',
    sql: `
      select ${fact}, told."from" || ' → ' || told."to" || ' by ' || told.by as what from told join nodes node on node.node_id = told.id
      join pools pool on pool.name = node.pool
      join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
      where ${change} and not told.actor and generation.document ->> 'mode' = 'observe' and told.by in ${list(observedRules)}`,
  },
  {
    invariant: 'what is held, or only told, is a verdict that is open there',
    sql: `
      select ${node}, 'is ' || node.status || ', held: ' || node.held::text as what from nodes node where node.held is not null and not exists (
        select 1 from edges where edges.entity = 'node' and edges."from" = node.status and edges."to" = node.held ->> 'to' and edges.by = node.held ->> 'rule')
      union all
      select ${node}, 'is ' || node.status || ', would have: ' || node.would_have::text from nodes node where node.would_have is not null and not exists (
        select 1 from edges where edges.entity = 'node' and edges."from" = node.status and edges."to" = node.would_have ->> 'to' and edges.by = node.would_have ->> 'rule')`,
  },
  {
    invariant: 'a gap of ours moves a deadline once',
    sql: `
      select told.id, min(told.pool) as pool, min(told.name) as name, 'moved ' || count(*) || ' times by the gap of ' || told.gap as what from told
      where told.gap is not null group by told.id, told.gap having count(*) > 1`,
  },
  {
    invariant: 'tasks stand where they may',
    sql: `
      select ${node}, 'its task is ' || task.status as what from tasks task join nodes node on node.node_id = task.node_id
      where (task.status = 'leased') <> (task.lease_until is not null) or (task.status in ('succeeded', 'failed')) <> (task.finished_at is not null)
        or (task.status in ('queued', 'leased') and task.expires_at <= $1)`,
  },
];
