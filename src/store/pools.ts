/** Pools and their generations: live nodes stay on the generation they were made from. */
import type { Pool, PoolDocument } from '../contract/pool.ts';
import type { Queryable, Transaction } from './database.ts';

export interface PoolRow {
  name: string;
  driver: string;
  generation: number;
  document: PoolDocument;
  created_at: Date;
  updated_at: Date;
}

const current = `
  select pool.*, generation.document from pools pool
  join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
  where pool.deleted_at is null`;

export async function currentPool(
  db: Queryable,
  name: string,
  lock?: 'for update of pool' | 'for share of pool',
): Promise<PoolRow | undefined> {
  return (await db.query<PoolRow>(`${current} and pool.name = $1 ${lock ?? ''}`, [name]))[0];
}

export async function poolGeneration(
  db: Queryable,
  name: string,
  generation: number,
): Promise<PoolDocument | undefined> {
  const [row] = await db.query<{ document: PoolDocument }>(
    'select document from pool_generations where pool = $1 and generation = $2',
    [name, generation],
    { often: true },
  );
  return row?.document;
}

/**
 * What a node was made from, but for the mode: whether rules decide or only watch is the pool's present word, for machines that
 * are up as well. Expects `generation`.
 */
export const documentOf = `(generation.document || jsonb_build_object('mode', coalesce((
  select present.document ->> 'mode' from pools pool
  join pool_generations present on present.pool = pool.name and present.generation = pool.generation where pool.name = generation.pool), 'enforce')))`;

/** The pools in which rules only watch. Read once in a statement, however many rows ask. */
export const observedPools = `array(select pool.name from pools pool
  join pool_generations present on present.pool = pool.name and present.generation = pool.generation where present.document ->> 'mode' = 'observe')`;

/** The documents that these nodes were made from, by pool and generation. */
export async function poolGenerations(
  db: Queryable,
  nodes: readonly { pool: string; pool_generation: number }[],
): Promise<Map<string, PoolDocument>> {
  const distinct = new Map(nodes.map((node) => [`${node.pool} ${node.pool_generation}`, node]));
  const rows = await db.query<{ pool: string; generation: number; document: PoolDocument }>(
    `select generation.pool, generation.generation, ${documentOf} as document from unnest($1::text[], $2::int[]) as asked(pool, generation)
     join pool_generations generation on generation.pool = asked.pool and generation.generation = asked.generation`,
    [[...distinct.values()].map(({ pool }) => pool), [...distinct.values()].map((node) => node.pool_generation)],
    { often: true },
  );
  return new Map(rows.map((row) => [`${row.pool} ${row.generation}`, row.document]));
}

/** The driver that a pool names now. */
export async function driverOfPool(db: Queryable, name: string): Promise<string | undefined> {
  return (await db.query<{ driver: string }>('select driver from pools where name = $1', [name]))[0]?.driver;
}

/**
 * What pools of a driver name under a key of their specs, null where one names nothing: in whatever generation, also of pools that
 * were deleted, since machines of theirs may be left.
 */
export async function namedInSpecs(db: Queryable, driver: string, key: string): Promise<(string | null)[]> {
  const rows = await db.query<{ named: string | null }>(
    `select distinct generation.document -> 'spec' ->> $2 as named from pools pool
     join pool_generations generation on generation.pool = pool.name where pool.driver = $1`,
    [driver, key],
  );
  return rows.map(({ named }) => named);
}

/** What each of these pools asks for now. */
export async function currentDocuments(db: Queryable, names: readonly string[]): Promise<Map<string, PoolDocument>> {
  const rows = await db.query<{ name: string; document: PoolDocument }>(
    `select pool.name, generation.document from pools pool
     join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation where pool.name = any($1)`,
    [[...new Set(names)]],
  );
  return new Map(rows.map((row) => [row.name, row.document]));
}

interface CountedRow extends PoolRow {
  live: number;
  free: number;
}

const counts = `
  select counted.*, coalesce(live.live, 0)::int as live, coalesce(live.free, 0)::int as free from (${current}) counted
  left join lateral (
    select count(*) as live, count(*) filter (where node.status in ('ready', 'degraded') and not exists (
      select 1 from allocations holder where holder.node_id = node.node_id and holder.status in ('provisioning', 'active', 'releasing', 'release_failed'))) as free
    from nodes node where node.pool = counted.name and node.status <> 'retired') live on true`;

const toWire = (row: CountedRow): Pool => {
  const { name: _, ...document } = row.document;
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
  const [row] = await db.query<CountedRow>(`${counts} where counted.name = $1`, [name]);
  return row && toWire(row);
}

export async function listPools(db: Queryable): Promise<Pool[]> {
  return (await db.query<CountedRow>(`${counts} order by counted.name`)).map(toWire);
}

/** Writes a new generation, unless the document is what the pool already is. Says whether anything changed. */
export async function declarePool(
  tx: Transaction,
  name: string,
  document: PoolDocument,
  now: Date,
): Promise<{ changed: boolean; generation: number }> {
  const [before] = await tx.query<{ generation: number; deleted_at: Date | null; same: boolean }>(
    `select pool.generation, pool.deleted_at, generation.document = $2::jsonb as same from pools pool
     join pool_generations generation on generation.pool = pool.name and generation.generation = pool.generation
     where pool.name = $1 for update of pool`,
    [name, document],
  );
  if (before?.same && before.deleted_at === null) return { changed: false, generation: before.generation };
  const generation = (before?.generation ?? 0) + 1;
  await tx.query(
    `insert into pools (name, driver, generation, created_at, updated_at) values ($1, $2, $3, $4, $4)
     on conflict (name) do update set driver = $2, generation = $3, updated_at = $4, deleted_at = null`,
    [name, document.driver, generation, now],
  );
  await tx.query('insert into pool_generations (pool, generation, document, created_at) values ($1, $2, $3, $4)', [
    name,
    generation,
    document,
    now,
  ]);
  return { changed: true, generation };
}

export async function hasLiveNodes(db: Queryable, pool: string): Promise<boolean> {
  const [row] = await db.query<{ live: boolean }>(
    `select exists (select 1 from nodes where pool = $1 and status <> 'retired')
       or exists (select 1 from allocations where pool = $1 and status in ('requested', 'provisioning', 'active', 'releasing', 'release_failed')) as live`,
    [pool],
  );
  return row?.live ?? false;
}

export async function deletePool(tx: Transaction, name: string, now: Date): Promise<void> {
  await tx.query('update pools set deleted_at = $2 where name = $1', [name, now]);
}

/** Whether a pool of this name exists or ever existed. */
export async function everDeclared(db: Queryable, name: string): Promise<boolean> {
  return (await db.query('select 1 from pools where name = $1', [name])).length > 0;
}
