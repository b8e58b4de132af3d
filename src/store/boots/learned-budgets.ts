/**
 * Reads the boots and recent budgets from which a pool's budget is learned, and saves the result.
 */
import { secondsLater } from '../../base/clock.ts';
import {
  type LearnedBudget,
  limitWindowSeconds,
  maxBootsLearnedFrom,
  maxLearnedAgeSeconds,
  type Stratum,
} from '../../lifecycle/boots/learned-budget.ts';
import type { SurvivalStep, TimedBoot } from '../../lifecycle/boots/survival.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import type { Queryable, Transaction } from '../pg/database.ts';
import { currentPool, type PoolRow, type StoredLearnedBudget } from '../rows/pools.ts';
import { isMeasured } from './boot-samples.ts';

const reconsiderSeconds = 3600;

/**
 * Finds pools with the learned policy that have a new boot or were not considered for an hour.
 * Within an hour boots may become too old, or the limit per day may allow another change.
 */
export async function listPoolsToLearn(db: Queryable, now: Date): Promise<string[]> {
  const rows = await db.query<{ name: string }>(
    `select pool.name
     from pools pool
     join pool_generations generation
       on generation.pool = pool.name
       and generation.generation = pool.generation
     where pool.deleted_at is null
       and generation.document #>> '{budgets,policy}' = 'learned'
       and (
         pool.learned is null
         -- A time after now means that the clock was set back.
         or (pool.learned ->> 'considered_at')::timestamptz not between $1 and $2
         or exists (
           select 1
           from boot_samples sample
           where sample.pool = pool.name
             and sample.phase = 'provision'
             and sample.at > (pool.learned ->> 'considered_at')::timestamptz))
     order by pool.name`,
    [secondsLater(now, -reconsiderSeconds), now],
  );
  return rows.map(({ name }) => name);
}

/**
 * Returns whether the operator's change has a plausible time. A day ahead means that the clock was
 * set back.
 */
const hasPlausibleChange = ({ budget_said_at }: PoolRow, now: Date) =>
  budget_said_at < secondsLater(now, limitWindowSeconds);

/**
 * Returns whether the operator's change is after `now`. A budget learned now would escape the daily
 * limit.
 */
const hasLaterChange = (pool: PoolRow, now: Date) => hasPlausibleChange(pool, now) && pool.budget_said_at > now;

/** Returns undefined if another replica has the lock, or if the pool may not learn now. */
export async function lockLearningPool(tx: Transaction, name: string, now: Date): Promise<PoolRow | undefined> {
  const [locked] = await tx.query('select 1 from pools where name = $1 for update skip locked', [name]);
  const pool = locked && (await currentPool(tx, name));
  return pool?.document.budgets?.policy === 'learned' && !hasLaterChange(pool, now) ? pool : undefined;
}

/**
 * Reads the oldest open hold of the brake on the pool or its zone, or for a fault of the server.
 */
export async function findOpenBrakeHold(
  db: Queryable,
  pool: PoolRow,
): Promise<{ since: Date; reason: string } | undefined> {
  const [hold] = await db.query<{ since: Date; reason: string }>(
    `select since, reason
     from brake_holds
     where ended_at is null
       and resumed_at is null
       and (
         (scope = 'pool' and name = $1)
         or (scope = 'zone' and name = $2)
         or kind = 'self-fault')
     order by since
     limit 1`,
    [pool.name, pool.document.zone ?? null],
  );
  return hold;
}

const recentBoots = `
  select seconds, outcome, at
  from boot_samples sample
  where sample.phase = 'provision'
    and sample.at > $2
    and ${isMeasured}`;

const bootsByStratum: Record<Stratum, string> = {
  'make-in-zone': `${recentBoots}
    and sample.pool = $1
    and sample.pool_generation >= $3
    and sample.zone is not distinct from $4`,
  make: `${recentBoots}
    and sample.pool = $1
    and sample.pool_generation >= $3`,
  pool: `${recentBoots}
    and sample.pool = $1`,
  class: `
    select newest.*
    from pools similar_pool
    join pool_generations present
      on present.pool = similar_pool.name
      and present.generation = similar_pool.generation
    cross join lateral (
      ${recentBoots}
        and sample.pool = similar_pool.name
      order by sample.at desc
      limit ${maxBootsLearnedFrom}) newest
    where similar_pool.name = $1
      or (similar_pool.driver = $3 and present.document ->> 'runtime_class' = $4)`,
};

const valuesOf = (stratum: Stratum, { document, driver, make_generation }: PoolRow): unknown[] => {
  if (stratum === 'make-in-zone') return [make_generation, document.zone ?? null];
  if (stratum === 'make') return [make_generation];
  return stratum === 'class' ? [driver, document.runtime_class ?? null] : [];
};

/** Reads the newest boots of one stratum. */
export function readBootsOf(db: Queryable, pool: PoolRow, stratum: Stratum, now: Date): Promise<TimedBoot[]> {
  return db.query<TimedBoot>(
    `select seconds, outcome
     from (${bootsByStratum[stratum]}) boot
     order by at desc
     limit ${maxBootsLearnedFrom}`,
    [pool.name, secondsLater(now, -maxLearnedAgeSeconds), ...valuesOf(stratum, pool)],
  );
}

/**
 * Reads the budgets that applied within a day before or after `now`. Later ones exist if the clock
 * was set back.
 */
export async function listRecentBudgets(db: Queryable, pool: PoolRow, now: Date): Promise<number[]> {
  const aDayAgo = secondsLater(now, -limitWindowSeconds);
  const since = hasPlausibleChange(pool, now) && pool.budget_said_at > aDayAgo ? pool.budget_said_at : aDayAgo;
  const changes = await db.query<{ from_seconds: number; seconds: number }>(
    `select from_seconds, seconds
     from budget_changes
     where pool = $1
       and at > $2
       and at < $3`,
    [pool.name, since, secondsLater(now, limitWindowSeconds)],
  );
  return changes.flatMap(({ from_seconds, seconds }) => [from_seconds, seconds]);
}

/** Returns whether an operator changed `provision_seconds` within the last day. */
export const hasNewFixedBudget = ({ number_said_at }: PoolRow, now: Date): boolean =>
  number_said_at !== null && number_said_at <= now && number_said_at > secondsLater(now, -limitWindowSeconds);

/** Enough points to draw the curve smoothly. */
const maxCurveSteps = 100;

function thinCurve(curve: readonly SurvivalStep[]): SurvivalStep[] {
  const every = Math.max(1, Math.ceil(curve.length / maxCurveSteps));
  return curve.filter((_, place) => place % every === 0 || place === curve.length - 1);
}

export interface BudgetUpdate {
  from_seconds: number;
  budget: LearnedBudget;
  because: string;
  /** False if the pool returns to its fixed budget. */
  learned: boolean;
}

const round = (seconds: number) => Number(seconds.toFixed(1));

/** Saves the learned budget. If the budget changed, records a fact with its survival curve. */
export async function saveLearnedBudget(
  tx: Transaction,
  pool: PoolRow,
  update: BudgetUpdate,
  now: Date,
): Promise<void> {
  const { budget, because, from_seconds, learned } = update;
  const { lesson, aim_seconds, seconds } = budget;
  const saved: StoredLearnedBudget = {
    ...{ seconds: learned ? seconds : null, aim_seconds, because },
    stratum: lesson?.stratum ?? null,
    completions: lesson?.completions ?? 0,
    considered_at: now.toISOString(),
  };
  await tx.query('update pools set learned = $2 where name = $1', [pool.name, saved]);
  if (!budget.moved) return;
  await tx.query(
    `insert into budget_changes (pool, at, from_seconds, seconds)
     values ($1, $2, $3, $4)`,
    [pool.name, now, from_seconds, seconds],
  );
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'rule',
      kind: 'budget.learned',
      summary: `pool ${pool.name} gives a boot ${round(seconds)} s instead of ${round(from_seconds)} s: ${because}`,
      data: {
        ...{ rule: 'learned-budget', pool: pool.name, phase: 'provision', generation: pool.generation },
        ...{ from_seconds, seconds, aim_seconds, reason: because, limits: budget.limits },
        lesson: lesson && { ...lesson, curve: thinCurve(lesson.curve) },
      },
      actor: { kind: 'rule', id: 'learned-budget', name: 'learned-budget' },
    },
  ]);
}
