/** What pools learn from: their boots by stratum, the moves their budgets made lately; and how a move is written, with its curve. */
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
import { currentPool, type Learned, type PoolRow } from '../rows/pools.ts';
import { wasSeenToBegin } from './boot-samples.ts';

const dueAgainSeconds = 3600;

/**
 * Pools that learn and have something new to learn from: a boot since they were last considered, or an hour, in which the limit of
 * a day or the age of boots may have moved. One that was considered in the future, by a clock that has jumped since, is asked again.
 */
export async function poolsToLearn(db: Queryable, now: Date): Promise<string[]> {
  const rows = await db.query<{ name: string }>(
    `select pool.name from pools pool
     join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
     where pool.deleted_at is null and generation.document #>> '{budgets,policy}' = 'learned'
       and (pool.learned is null or (pool.learned ->> 'considered_at')::timestamptz not between $1 and $2 or exists (select 1 from boot_samples sample
         where sample.pool = pool.name and sample.phase = 'provision' and sample.at > (pool.learned ->> 'considered_at')::timestamptz))
     order by pool.name`,
    [secondsLater(now, -dueAgainSeconds), now],
  );
  return rows.map(({ name }) => name);
}

/** By a clock that has jumped since, an operator spoke so far ahead that it orders nothing: moves are then counted as if nobody had. */
const spokeInTime = ({ budget_said_at }: PoolRow, now: Date) => budget_said_at < secondsLater(now, limitWindowSeconds);

/** A move of an earlier moment than the operator's word would not be counted after it, and the day would have two. */
const spokeSince = (pool: PoolRow, now: Date) => spokeInTime(pool, now) && pool.budget_said_at > now;

/** Locked, so that two replicas do not move it both; nothing where another one has it, it no longer learns, or an operator spoke meanwhile. */
export async function lockLearningPool(tx: Transaction, name: string, now: Date): Promise<PoolRow | undefined> {
  const [free] = await tx.query('select 1 from pools where name = $1 for update skip locked', [name]);
  const pool = free && (await currentPool(tx, name));
  return pool?.document.budgets?.policy === 'learned' && !spokeSince(pool, now) ? pool : undefined;
}

/** Since when the brake holds or pauses anything of the pool or of its zone, or doubts our own hearing. */
export async function openBrakeHold(
  db: Queryable,
  pool: PoolRow,
): Promise<{ since: Date; reason: string } | undefined> {
  const [hold] = await db.query<{ since: Date; reason: string }>(
    `select since, reason from brake_holds where ended_at is null and resumed_at is null
       and ((scope = 'pool' and name = $1) or (scope = 'zone' and name = $2) or kind = 'self-fault') order by since limit 1`,
    [pool.name, pool.document.zone ?? null],
  );
  return hold;
}

const boots = 'select seconds, outcome, at from boot_samples sample';
const recent = `sample.phase = 'provision' and sample.at > $2 and ${wasSeenToBegin}`;

const questions: Record<Stratum, string> = {
  'make-in-zone': `${boots} where sample.pool = $1 and ${recent} and sample.pool_generation >= $3 and sample.zone is not distinct from $4`,
  make: `${boots} where sample.pool = $1 and ${recent} and sample.pool_generation >= $3`,
  pool: `${boots} where sample.pool = $1 and ${recent}`,
  class: `select newest.* from pools alike
    join pool_generations present on present.pool = alike.name and present.generation = alike.generation
    cross join lateral (${boots} where sample.pool = alike.name and ${recent} order by sample.at desc limit ${maxBootsLearnedFrom}) newest
    where alike.name = $1 or (alike.driver = $3 and present.document ->> 'runtime_class' = $4)`,
};

const valuesOf = (stratum: Stratum, { document, driver, make_generation }: PoolRow): unknown[] => {
  if (stratum === 'make-in-zone') return [make_generation, document.zone ?? null];
  if (stratum === 'make') return [make_generation];
  return stratum === 'class' ? [driver, document.runtime_class ?? null] : [];
};

/** The newest of one stratum. */
export function bootsOf(db: Queryable, pool: PoolRow, stratum: Stratum, now: Date): Promise<TimedBoot[]> {
  return db.query<TimedBoot>(
    `select seconds, outcome from (${questions[stratum]}) found order by at desc limit ${maxBootsLearnedFrom}`,
    [pool.name, secondsLater(now, -maxLearnedAgeSeconds), ...valuesOf(stratum, pool)],
  );
}

/** Every budget that was in force within a day of now, since an operator last spoke; later, too, where a clock has jumped. */
export async function recentBudgets(db: Queryable, pool: PoolRow, now: Date): Promise<number[]> {
  const aDayAgo = secondsLater(now, -limitWindowSeconds);
  const since = spokeInTime(pool, now) && pool.budget_said_at > aDayAgo ? pool.budget_said_at : aDayAgo;
  const moves = await db.query<{ from_seconds: number; seconds: number }>(
    'select from_seconds, seconds from budget_changes where pool = $1 and at > $2 and at < $3',
    [pool.name, since, secondsLater(now, limitWindowSeconds)],
  );
  return moves.flatMap(({ from_seconds, seconds }) => [from_seconds, seconds]);
}

/** Whether an operator gave it another number within the last day. */
export const hasNewNumber = ({ number_said_at }: PoolRow, now: Date): boolean =>
  number_said_at !== null && number_said_at <= now && number_said_at > secondsLater(now, -limitWindowSeconds);

/** So many steps draw it well. */
const drawnSteps = 100;

function thinned(curve: readonly SurvivalStep[]): SurvivalStep[] {
  const every = Math.max(1, Math.ceil(curve.length / drawnSteps));
  return curve.filter((_, place) => place % every === 0 || place === curve.length - 1);
}

export interface BudgetUpdate {
  from_seconds: number;
  budget: LearnedBudget;
  because: string;
  /** False: back to what is fixed. */
  learned: boolean;
}

const rounded = (seconds: number) => Number(seconds.toFixed(1));

/** Keeps what was considered; a move is on record as a verdict, with the curve it was taken from. */
export async function saveLearnedBudget(
  tx: Transaction,
  pool: PoolRow,
  taught: BudgetUpdate,
  now: Date,
): Promise<void> {
  const { budget, because, from_seconds, learned } = taught;
  const { lesson, aim_seconds, seconds } = budget;
  const kept: Learned = {
    ...{ seconds: learned ? seconds : null, aim_seconds, because },
    stratum: lesson?.stratum ?? null,
    completions: lesson?.completions ?? 0,
    considered_at: now.toISOString(),
  };
  await tx.query('update pools set learned = $2 where name = $1', [pool.name, kept]);
  if (!budget.moved) return;
  await tx.query('insert into budget_changes (pool, at, from_seconds, seconds) values ($1, $2, $3, $4)', [
    pool.name,
    now,
    from_seconds,
    seconds,
  ]);
  await recordEvidence(tx, [
    {
      at: now,
      layer: 'rule',
      kind: 'budget.learned',
      summary: `pool ${pool.name} gives a boot ${rounded(seconds)} s instead of ${rounded(from_seconds)} s: ${because}`,
      data: {
        ...{ rule: 'learned-budget', pool: pool.name, phase: 'provision', generation: pool.generation },
        ...{ from_seconds, seconds, aim_seconds, reason: because, limits: budget.limits },
        lesson: lesson && { ...lesson, curve: thinned(lesson.curve) },
      },
      actor: { kind: 'rule', id: 'learned-budget', name: 'learned-budget' },
    },
  ]);
}
