/**
 * Reads and writes pools and their generations. A node keeps the generation that it was made from,
 * even after its pool is declared again.
 */
import type { Pool, PoolDocument } from '../../contract/pool.ts';
import type { Stratum } from '../../lifecycle/boots/learned-budget.ts';
import { byIds } from '../pg/by-ids.ts';
import type { Queryable, Transaction } from '../pg/database.ts';

/** The provision budget that a pool has learned from its boots, and why. */
export interface StoredLearnedBudget {
  /** Null: nothing learned, so the fixed budget applies. */
  seconds: number | null;
  aim_seconds: number;
  because: string;
  stratum: Stratum | null;
  completions: number;
  considered_at: string;
}

/** A pool document, plus the learned budget, which is not part of what the operator declared. */
export type KnownDocument = PoolDocument & { learned?: StoredLearnedBudget | null };

export interface PoolRow {
  name: string;
  driver: string;
  generation: number;
  document: KnownDocument;
  created_at: Date;
  updated_at: Date;
  /** The first generation with the present spec, runtime class and prerequisites. */
  make_generation: number;
  /** When an operator last set the provision budget, or changed a field of `makeFields`. */
  budget_said_at: Date;
  /** When an operator last changed `provision_seconds` without changing a field of `makeFields`. */
  number_said_at: Date | null;
}

const currentPools = `
  select pool.*, generation.document || jsonb_build_object('learned', pool.learned) as document
  from pools pool
  join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
  where pool.deleted_at is null`;

export async function currentPool(
  db: Queryable,
  name: string,
  lock?: 'for update of pool' | 'for share of pool',
): Promise<PoolRow | undefined> {
  return (await db.query<PoolRow>(`${currentPools} and pool.name = $1 ${lock ?? ''}`, [name], { prepared: true }))[0];
}

/** Arbitrary, but must never change: replicas of different versions must agree on it. */
const assignmentLock = 718_202_605;

/**
 * Locks a pool for assigning its machines, one transaction at a time, so that capacity and free
 * machines are counted correctly. Requests for machines do not wait, since the row lock is shared;
 * changes of the pool wait.
 */
export async function lockPoolForAssignment(tx: Transaction, name: string): Promise<PoolRow | undefined> {
  await tx.query('select pg_advisory_xact_lock($1, hashtext($2))', [assignmentLock, name], { prepared: true });
  return currentPool(tx, name, 'for share of pool');
}

/**
 * SQL for the document of a generation. Two values come from the pool's present state, because they
 * apply to live nodes too: the mode (`enforce` or `observe`), and the learned budget unless a field
 * of `makeFields` has changed since this generation. Expects the alias `generation`.
 */
export const documentOfGeneration = `(generation.document || coalesce((
    select jsonb_build_object(
      'mode', coalesce(present.document ->> 'mode', 'enforce'),
      'learned', case when generation.generation >= pool.make_generation then pool.learned end
    )
    from pools pool
    join pool_generations present on present.pool = pool.name and present.generation = pool.generation
    where pool.name = generation.pool
  ),
  '{"mode": "enforce"}'
))`;

export async function readGenerationDocument(
  db: Queryable,
  name: string,
  generation: number,
): Promise<KnownDocument | undefined> {
  const [row] = await db.query<{ document: KnownDocument }>(
    `select ${documentOfGeneration} as document
     from pool_generations generation
     where pool = $1
       and generation = $2`,
    [name, generation],
    { prepared: true },
  );
  return row?.document;
}

/** SQL for the names of observe-only pools, as an array that a statement evaluates once. */
export const observeOnlyPools = `array(
  select pool.name
  from pools pool
  join pool_generations present on present.pool = pool.name and present.generation = pool.generation
  where present.document ->> 'mode' = 'observe'
)`;

/** Reads the documents that these nodes were made from, keyed by `pool generation`. */
export async function readGenerationDocuments(
  db: Queryable,
  nodes: readonly { pool: string; pool_generation: number }[],
): Promise<Map<string, KnownDocument>> {
  const distinct = new Map(nodes.map((node) => [`${node.pool} ${node.pool_generation}`, node]));
  const rows = await db.query<{ pool: string; generation: number; document: KnownDocument }>(
    `select generation.pool, generation.generation, ${documentOfGeneration} as document
     from unnest($1::text[], $2::int[]) as wanted(pool, generation)
     join pool_generations generation
       on generation.pool = wanted.pool and generation.generation = wanted.generation`,
    [[...distinct.values()].map(({ pool }) => pool), [...distinct.values()].map((node) => node.pool_generation)],
    { prepared: true },
  );
  return new Map(rows.map((row) => [`${row.pool} ${row.generation}`, row.document]));
}

/** Reads the pools of these drivers, including deleted pools, which may still have machines. */
export async function listPoolsOfDrivers(db: Queryable, drivers: readonly string[]): Promise<string[]> {
  const rows = await db.query<{ name: string }>('select name from pools where driver = any($1)', [drivers]);
  return rows.map(({ name }) => name);
}

/**
 * Reads the distinct values of a field in the specs of a driver's pools, null where the field is
 * missing. Includes all generations and deleted pools, because these may still have machines.
 */
export async function readSpecValues(db: Queryable, driver: string, field: string): Promise<(string | null)[]> {
  const rows = await db.query<{ value: string | null }>(
    `select distinct generation.document -> 'spec' ->> $2 as value
     from pools pool
     join pool_generations generation on generation.pool = pool.name
     where pool.driver = $1`,
    [driver, field],
  );
  return rows.map(({ value }) => value);
}

/** Reads the present documents of these pools, also of deleted ones. */
export async function readCurrentDocuments(
  db: Queryable,
  names: readonly string[],
): Promise<Map<string, KnownDocument>> {
  if (names.length === 0) return new Map();
  const { condition, value, options } = byIds('pool.name', '$1', [...new Set(names)]);
  const rows = await db.query<{ name: string; document: KnownDocument }>(
    `select pool.name, generation.document || jsonb_build_object('learned', pool.learned) as document
     from pools pool
     join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
     where ${condition}`,
    [value],
    options,
  );
  return new Map(rows.map((row) => [row.name, row.document]));
}

interface CountedRow extends PoolRow {
  live: number;
  free: number;
}

/**
 * How many nodes that are not ready are checked for a holder. In a pool with more such nodes,
 * `free` comes out too low.
 */
const maxNotReady = 5_000;

const holdingStatuses = `('provisioning', 'active', 'releasing', 'release_failed')`;

/**
 * Free nodes are those that are ready and held by no allocation, as in `lockFreeNodes`: the nodes
 * that are ready, minus the held ones, plus the held ones that are not ready. The first two numbers
 * come from `counts`; only the nodes of the third are read, which are few.
 */
const poolsWithCounts = `
  select counted.*,
    coalesce(fleet.live, 0)::int as live,
    greatest(0, coalesce(fleet.ready, 0) - coalesce(held.held, 0) + coalesce(not_ready.held, 0))::int as free
  from (${currentPools}) counted
  left join (
    select pool,
      sum(change) filter (where status <> 'retired') as live,
      sum(change) filter (where status = 'ready') as ready
    from counts
    where of = 'nodes'
    group by pool
  ) fleet on fleet.pool = counted.name
  left join (
    select pool, sum(change) as held
    from counts
    where of = 'allocations'
      and on_node
      and status in ${holdingStatuses}
    group by pool
  ) held on held.pool = counted.name
  left join lateral (
    select count(*) as held
    from (
      select node_id from nodes
      where pool = counted.name
        and status in (
          'provisioning', 'starting', 'degraded', 'offline', 'failed', 'draining', 'cleaning', 'quarantined')
      limit ${maxNotReady}
    ) node
    where exists (
      select from allocations holder
      where holder.node_id = node.node_id
        and holder.status in ${holdingStatuses}
    )
  ) not_ready on true`;

const toWire = (row: CountedRow): Pool => {
  const { name: _, learned: __, ...document } = row.document;
  return {
    ...document,
    name: row.name,
    generation: row.generation,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    nodes: { live: row.live, free: row.free },
  };
};

export async function readPool(db: Queryable, name: string): Promise<Pool | undefined> {
  const [row] = await db.query<CountedRow>(`${poolsWithCounts} where counted.name = $1`, [name]);
  return row && toWire(row);
}

export async function countPools(db: Queryable): Promise<number> {
  const [row] = await db.query<{ pools: number }>('select count(*)::int as pools from pools where deleted_at is null');
  return row?.pools ?? 0;
}

export async function listPools(db: Queryable): Promise<Pool[]> {
  return (await db.query<CountedRow>(`${poolsWithCounts} order by counted.name`)).map(toWire);
}

/** The fields that decide how long a boot takes. A change of one discards the learned budget. */
const makeFields = `array[document -> 'spec', document -> 'runtime_class', document -> 'requires']`;
const provisionSeconds = `document #> '{budgets,provision_seconds}'`;
/** The fields by which an operator sets the provision budget. */
const budgetFields = `array[${provisionSeconds}, document #> '{budgets,policy}', document #> '{budgets,floor_seconds}',
  document #> '{budgets,ceiling_seconds}']`;

interface FormerGeneration {
  generation: number;
  deleted_at: Date | null;
  same_document: boolean;
  same_make: boolean;
  same_budget: boolean;
  same_seconds: boolean;
}

/** SQL that is true if the expression has the same value for the former document and for `$2`. */
const isUnchanged = (expression: string) =>
  `(select ${expression} from (select former.document) each)
    is not distinct from (select ${expression} from (select $2::jsonb as document) each)`;

/**
 * Writes a new generation unless the document is unchanged. Discards the learned budget if a field
 * of `makeFields` or of `budgetFields` changed, or if the pool was deleted before.
 */
export async function declarePool(
  tx: Transaction,
  name: string,
  document: PoolDocument,
  now: Date,
): Promise<{ changed: boolean; generation: number }> {
  const [former] = await tx.query<FormerGeneration>(
    `select pool.generation, pool.deleted_at, former.document = $2::jsonb as same_document,
       ${isUnchanged(makeFields)} as same_make, ${isUnchanged(budgetFields)} as same_budget,
       ${isUnchanged(provisionSeconds)} as same_seconds
     from pools pool
     join pool_generations former on former.pool = pool.name and former.generation = pool.generation
     where pool.name = $1
     for update of pool`,
    [name, document],
  );
  if (former?.same_document && former.deleted_at === null) return { changed: false, generation: former.generation };
  const generation = (former?.generation ?? 0) + 1;
  const hasSameMake = former !== undefined && former.deleted_at === null && former.same_make;
  await tx.query(
    `insert into pools (name, driver, generation, make_generation, budget_said_at, created_at, updated_at)
     values ($1, $2, $3, $3, $4, $4, $4)
     on conflict (name) do update
     set driver = $2, generation = $3, updated_at = $4, deleted_at = null,
       make_generation = case when $5 then pools.make_generation else $3 end,
       budget_said_at = case when $5 and $6 then pools.budget_said_at else $4 end,
       number_said_at = case when not $5 then null when $7 then pools.number_said_at else $4 end,
       learned = case when $5 and $6 then pools.learned end`,
    [
      name,
      document.driver,
      generation,
      now,
      hasSameMake,
      hasSameMake && former.same_budget,
      former?.same_seconds ?? true,
    ],
  );
  await tx.query('insert into pool_generations (pool, generation, document, created_at) values ($1, $2, $3, $4)', [
    name,
    generation,
    document,
    now,
  ]);
  return { changed: true, generation };
}

/**
 * Discards the learned budget, because an operator confirmed the budget of the document. Returns
 * whether there was a learned budget.
 */
export async function discardLearnedBudget(tx: Transaction, name: string, now: Date): Promise<boolean> {
  const updated = await tx.query(
    `update pools
     set learned = null, budget_said_at = $2, number_said_at = $2
     where name = $1
       and learned ->> 'seconds' is not null
     returning name`,
    [name, now],
  );
  return updated.length > 0;
}

/** Whether the pool has nodes that are not retired, or allocations that have or wait for one. */
export async function isPoolInUse(db: Queryable, pool: string): Promise<boolean> {
  const [row] = await db.query<{ is_in_use: boolean }>(
    `select exists (select 1 from nodes where pool = $1 and status <> 'retired')
       or exists (
         select 1 from allocations
         where pool = $1
           and status in ('requested', 'provisioning', 'active', 'releasing', 'release_failed')
       ) as is_in_use`,
    [pool],
  );
  return row?.is_in_use ?? false;
}

export async function deletePool(tx: Transaction, name: string, now: Date): Promise<void> {
  await tx.query('update pools set deleted_at = $2 where name = $1', [name, now]);
}

/** Whether a pool of this name exists or ever existed. */
export async function hasEverBeenDeclared(db: Queryable, name: string): Promise<boolean> {
  return (await db.query('select 1 from pools where name = $1', [name])).length > 0;
}

export async function readGenerationTime(db: Queryable, name: string, generation: number): Promise<Date> {
  const [row] = await db.query<{ created_at: Date }>(
    'select created_at from pool_generations where pool = $1 and generation = $2',
    [name, generation],
  );
  if (!row) throw new Error(`the pool ${name} has no generation ${generation}`);
  return row.created_at;
}
