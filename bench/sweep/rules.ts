/**
 * Declares the measured rules, makes their nodes due, and contains the baseline: the bare UPDATE
 * that writes the same columns.
 */
import { secondsLater } from '../../src/base/clock.ts';
import type { NodeId } from '../../src/base/ids.ts';
import type { NodeStatus } from '../../src/lifecycle/model/states.ts';
import type { Queryable, Transaction } from '../../src/store/pg/database.ts';

export interface MeasuredRule {
  /** The name in the registry of sweeps. */
  name: string;
  from: NodeStatus;
  to: NodeStatus;
  /** Whether nodes become due by their own deadline or by silence. */
  dueBy: 'deadline' | 'silence';
  /** Whether the nodes still send heartbeats when they become due. */
  beats: boolean;
  /** Gives each node an allocation, which fails with the node. Later rules keep the allocations. */
  allocated?: boolean;
}

export const measuredRules: MeasuredRule[] = [
  { name: 'provision-deadline', from: 'provisioning', to: 'failed', dueBy: 'deadline', beats: true },
  { name: 'stuck-starting', from: 'starting', to: 'ready', dueBy: 'deadline', beats: true },
  { name: 'start-deadline', from: 'starting', to: 'failed', dueBy: 'deadline', beats: false },
  { name: 'liveness', from: 'ready', to: 'offline', dueBy: 'silence', beats: false },
  { name: 'provision-deadline', from: 'provisioning', to: 'failed', dueBy: 'deadline', beats: true, allocated: true },
];

const daySeconds = 86_400;

const ofNodes = 'node_instance_id in (select node_instance_id from nodes where node_id = any($1))';

const setLastSeen = (db: Queryable, ids: NodeId[], seen: Date) =>
  db.query(`update heartbeats set last_seen_at = $2 where ${ofNodes}`, [ids, seen]);

/** Creates an allocation for each node. */
export async function allocate(db: Queryable, ids: NodeId[], now: Date): Promise<void> {
  await db.query(
    `insert into allocations (allocation_id, pool, node_id, tenant, name, status, status_since, workflow_id, correlation_id,
       deadline_at, budget_seconds, budget_source, created_at)
     select 'alloc' || substr(node_id, 5), pool, node_id, 'tenant-7', name, 'provisioning', $2, workflow_id, correlation_id,
       deadline_at, budget_seconds, budget_source, $2 from nodes where node_id = any($1)`,
    [ids, now],
  );
  await db.query('vacuum (analyze) allocations');
}

/** Makes nodes due: their deadlines passed within the last second, or they fell silent. */
export async function makeDue(db: Queryable, rule: MeasuredRule, ids: NodeId[], now: Date): Promise<void> {
  const byDeadline = rule.dueBy === 'deadline';
  await db.query(
    `update nodes set status = $3, status_since = $4, registered_at = case when $3 <> 'provisioning' then $4::timestamptz end, verdict = null,
       deadline_at = case when $5 then $2::timestamptz - interval '1 second' * random() end,
       budget_seconds = case when $5 then 720 end, budget_source = case when $5 then 'pool' end
     where node_id = any($1)`,
    [ids, now, rule.from, secondsLater(now, -daySeconds), byDeadline],
  );
  if (!rule.beats) await setLastSeen(db, ids, secondsLater(now, -daySeconds));
}

/**
 * Puts nodes back into the status that the rule decides about, or into `provisioning` for a rule
 * about silence, with a deadline in the future. The brake then sees no mass failure, because many
 * nodes of the phase are not due.
 */
export async function resetNodes(db: Queryable, rule: MeasuredRule, ids: NodeId[], now: Date): Promise<void> {
  await db.query(
    `update nodes set status = $4, status_since = $3, registered_at = case when $4 <> 'provisioning' then $3::timestamptz end,
       verdict = null, held = null, would_have = null, deadline_at = $2::timestamptz + interval '1 hour' * (1 + random()),
       budget_seconds = 720, budget_source = 'pool' where node_id = any($1)`,
    [ids, now, secondsLater(now, -daySeconds), rule.dueBy === 'deadline' ? rule.from : 'provisioning'],
  );
  if (rule.allocated)
    await db.query(
      `update allocations set status = 'provisioning', status_since = $2, deadline_at = $3, budget_seconds = 720, verdict = null
       where node_id = any($1)`,
      [ids, now, secondsLater(now, 3600)],
    );
  if (!rule.beats) await setLastSeen(db, ids, now);
  // Remove the traces of earlier passes: a boot must not end twice, the brake must not count
  // earlier verdicts, and there must be no gap.
  await db.query(`delete from boot_samples where ${ofNodes}`, [ids]);
  await db.query('delete from brake_tally');
  await db.query('delete from brake_holds');
  await db.query('delete from ingest_gaps');
}

const dueCondition: Record<MeasuredRule['dueBy'], string> = {
  deadline: 'status = $5 and deadline_at <= $1',
  // By id, because finding silent nodes is not part of the baseline.
  silence: 'status = $5 and node_id = any($6)',
};

/** The baseline: the writes of a transition without its checks and evidence. */
export async function bareUpdate(tx: Transaction, rule: MeasuredRule, ids: NodeId[], now: Date): Promise<void> {
  const verdict = {
    rule: rule.name,
    reason: 'waited 86400 s, budget from pool',
    at: now.toISOString(),
    from: rule.from,
  };
  const deadline = secondsLater(now, 3600);
  await tx.query(
    `update nodes set status = $2, status_since = $1, deadline_at = $3, budget_seconds = 3600, budget_source = 'pool',
       verdict = $4, held = null, would_have = null, drain_then = null where ${dueCondition[rule.dueBy]}`,
    [now, rule.to, deadline, verdict, rule.from, ...(rule.dueBy === 'silence' ? [ids] : [])],
  );
  if (rule.allocated)
    await tx.query(
      `update allocations set status = 'failed', status_since = $2, deadline_at = $3, budget_seconds = 3600, budget_source = 'pool',
         verdict = $4, reason = $5, owner_layer = 'node' where node_id = any($1) and status = 'provisioning'`,
      [ids, now, deadline, verdict, verdict.reason],
    );
}

const columns =
  'at, layer, kind, summary, data, actor, node_id, node_instance_id, correlation_id, allocation_id, workflow_id';

/** Stores a copy of the evidence of a pass, so that the baseline can write exactly as much. */
export async function copyEvidence(db: Queryable, ids: NodeId[], at: Date): Promise<void> {
  await db.query('drop table if exists kept_facts, kept_samples');
  await db.query(`create unlogged table kept_facts as select ${columns} from evidence limit 0`);
  await db.query(`insert into kept_facts select ${columns} from evidence where node_id = any($1) and at = $2`, [
    ids,
    at,
  ]);
  await db.query('create unlogged table kept_samples as select * from boot_samples limit 0');
  await db.query(`insert into kept_samples select * from boot_samples where ${ofNodes}`, [ids]);
}

/** Inserts the evidence and boot samples that `copyEvidence` copied. */
export async function bareInsert(tx: Transaction): Promise<void> {
  await tx.query(`insert into evidence (${columns}) select ${columns} from kept_facts`);
  await tx.query('insert into boot_samples select * from kept_samples');
}

export async function countWithStatus(db: Queryable, ids: NodeId[], status: NodeStatus): Promise<number> {
  const rows = await db.query('select 1 from nodes where node_id = any($1) and status = $2', [ids, status]);
  return rows.length;
}
