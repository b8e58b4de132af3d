/**
 * Stores boot samples: the duration and outcome of each boot phase. Budgets are learned from them.
 */
import { secondsBetween } from '../../base/clock.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import type { BootSample } from '../../contract/supervision/boots.ts';
import { type SamplePhase, sampleOf } from '../../lifecycle/boots/boot-samples.ts';
import type { TimedBoot } from '../../lifecycle/boots/survival.ts';
import type { NodeStatus } from '../../lifecycle/model/states.ts';
import type { Cause } from '../../lifecycle/model/transitions.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import type { NodeRow } from '../rows/nodes.ts';

export function imageOf(pool: PoolDocument): string | null {
  const { image } = (pool.spec ?? {}) as { image?: unknown };
  return typeof image === 'string' ? image : null;
}

/** Returns the sample of the boot phase that this move ends. `node` is the row before the move. */
export function toBootSample(
  node: NodeRow & { pool_document: PoolDocument },
  move: { to: NodeStatus; by: Cause },
  now: Date,
) {
  const end = sampleOf(node.status, move.to, move.by, node.registered_at !== null);
  const started_at = end?.phase === 'start' ? node.registered_at : node.clock_from;
  // A node that waits for capacity has not begun to boot.
  if (!end || !started_at || !node.node_instance_id || node.waiting_for === 'capacity') return undefined;
  return {
    ...end,
    node_instance_id: node.node_instance_id,
    node_id: node.node_id,
    pool: node.pool,
    pool_generation: node.pool_generation,
    runtime_class: node.pool_document.runtime_class ?? null,
    zone: node.zone,
    image: imageOf(node.pool_document),
    started_at,
    seconds: secondsBetween(started_at, now),
    lateness_seconds: end.outcome === 'late' ? secondsBetween(node.status_since, now) : null,
    budget_seconds: node.budget_seconds,
    budget_source: node.budget_source,
    at: now,
  };
}

export const sampleColumns = `
  node_instance_id, phase, node_id, pool, pool_generation, runtime_class, zone, image, started_at,
  seconds, outcome, lateness_seconds, budget_seconds, budget_source, at`;

/**
 * A phase that timed out and completed later stays one sample. Its outcome becomes `late`, and it
 * keeps the budget that it missed.
 */
export const onSampleConflict = `
  on conflict (node_instance_id, phase) do update set
    seconds = excluded.seconds,
    at = excluded.at,
    outcome = case
      when boot_samples.outcome = 'timed_out' and excluded.outcome = 'completed' then 'late'
      else excluded.outcome
    end,
    lateness_seconds = extract(epoch from excluded.at - boot_samples.at),
    budget_seconds = boot_samples.budget_seconds,
    budget_source = boot_samples.budget_source
  where boot_samples.outcome = 'timed_out'`;

export async function storeBootSamples(
  tx: Transaction,
  samples: (ReturnType<typeof toBootSample> | undefined)[],
): Promise<void> {
  const present = samples.filter((sample) => sample !== undefined);
  if (present.length === 0) return;
  await tx.query(
    `insert into boot_samples (${sampleColumns})
     select ${sampleColumns}
     from jsonb_populate_recordset(null::boot_samples, $1::jsonb)
     ${onSampleConflict}`,
    [JSON.stringify(present)],
    { prepared: true },
  );
}

/** A budget is judged by at most this many of the newest samples. */
const maxSamples = 500;

/**
 * Excludes provision phases of 0 s. They belong to machines that had booted before they joined, so
 * their boot was not measured.
 */
export const isMeasured = `(phase = 'start' or seconds > 0)`;

interface SampleRow extends Omit<BootSample, 'at'> {
  at: Date;
}

export const sampleFields = 'node_id, node_instance_id, seconds, outcome, lateness_seconds, budget_seconds, at';

export const toWireSample = <R extends SampleRow>({ at, ...row }: R) => ({ ...row, at: at.toISOString() });

export async function listNewestBootSamples(db: Queryable, pool: string, phase: SamplePhase): Promise<BootSample[]> {
  const rows = await db.query<SampleRow>(
    `select ${sampleFields}
     from boot_samples
     where pool = $1
       and phase = $2
       and ${isMeasured}
     order by at desc
     limit ${maxSamples}`,
    [pool, phase],
  );
  return rows.map(toWireSample);
}

const runningPhase: Record<SamplePhase, { status: NodeStatus; since: string }> = {
  provision: { status: 'provisioning', since: 'clock_from' },
  start: { status: 'starting', since: 'registered_at' },
};

/** Reads boots in progress. Their time so far is a lower bound of their duration. */
export function listRunningBoots(db: Queryable, pool: string, phase: SamplePhase, now: Date): Promise<TimedBoot[]> {
  const { status, since } = runningPhase[phase];
  return db.query<TimedBoot>(
    `select extract(epoch from $2::timestamptz - ${since})::float8 as seconds, 'running' as outcome
     from nodes
     where pool = $1
       and status = '${status}'
       -- A node that waits for capacity has not begun to boot.
       and waiting_for is distinct from 'capacity'
       and ${since} < $2
     order by ${since}
     limit ${maxSamples}`,
    [pool, now],
  );
}

export interface BootCounts {
  at: Date;
  boots: number;
  late: number;
  killed: number;
}

/** Counts how boots ended since the budget was last set by an operator, learned or reset. */
export async function countBootsSinceChange(db: Queryable, pool: string, phase: SamplePhase): Promise<BootCounts> {
  const [row] = await db.query<BootCounts>(
    `with present as (
       select document #> $3 as budget
       from pools
       join pool_generations
         on pool_generations.pool = pools.name
         and pool_generations.generation = pools.generation
       where name = $1),
     -- The generation after the last one with another budget.
     configured as (
       select min(created_at) as at
       from pool_generations
       where pool = $1
         and generation > coalesce((
           select max(former.generation)
           from pool_generations former, present
           where former.pool = $1
             and former.document #> $3 is distinct from present.budget), 0)),
     -- Only provision budgets are learned. An operator's change discards the learned budget.
     learned as (
       select greatest(max(at), max(budget_said_at)) as at
       from budget_changes
       join pools on name = pool
       where pool = $1
         and $2 = 'provision'),
     change as (
       select greatest(configured.at, learned.at) as at
       from configured, learned)
     select
       change.at,
       count(sample.at)::int as boots,
       (count(*) filter (where outcome = 'late'))::int as late,
       (count(*) filter (where outcome = 'timed_out'))::int as killed
     from change
     left join boot_samples sample
       on sample.pool = $1
       and sample.phase = $2
       and ${isMeasured}
       and sample.at > change.at
     group by change.at`,
    [pool, phase, ['budgets', `${phase}_seconds`]],
  );
  if (!row) throw new Error(`pool ${pool} no longer exists`);
  return row;
}
