/** Applies one migration and measures what it does to the tables that exist already. */
import type pg from 'pg';
import { statementsOf } from '../migrate.ts';
import type { Effect } from '../upgrade/migration-steps.ts';

interface TableChange {
  table: string;
  modes: string[];
  is_rewritten: boolean;
  has_new_index: boolean;
}

const recordTables = `
  create temporary table seen_tables as
  select cls.oid, relfilenode, coalesce(pg_partition_root(cls.oid), cls.oid)::regclass::text as name
  from pg_class cls
  where relnamespace = 'public'::regnamespace
    and relkind in ('r', 'p')
    and relname <> 'schema_migrations';
  create temporary table seen_indexes as select indexrelid from pg_index`;

/** Reads the locks that the statement took and still holds, because its transaction is open. */
const readChanges = `
  select seen.name as table,
    coalesce(array_agg(distinct mode) filter (where mode is not null), '{}') as modes,
    bool_or(present.relfilenode is distinct from seen.relfilenode) as is_rewritten,
    exists (
      select 1
      from pg_index
      join seen_tables on seen_tables.oid = indrelid
      where seen_tables.name = seen.name
        and indexrelid not in (select indexrelid from seen_indexes)
    ) as has_new_index
  from seen_tables seen
  left join pg_locks on relation = seen.oid and pid = pg_backend_pid() and granted
  left join pg_class present on present.oid = seen.oid
  group by seen.name`;

const toBlocks = (modes: string[]): Effect['blocks'] => {
  if (modes.includes('AccessExclusiveLock')) return 'everything';
  return modes.some((mode) => ['ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock'].includes(mode))
    ? 'writes'
    : 'nothing';
};

function toEffects({ table, modes, is_rewritten, has_new_index }: TableChange): Effect[] {
  const blocks = toBlocks(modes);
  const changesRows = modes.includes('RowExclusiveLock');
  const work = is_rewritten ? 'rewrite' : has_new_index ? 'index' : changesRows ? 'rows' : 'catalog';
  return blocks === 'nothing' && work === 'catalog' ? [] : [{ table, blocks, work }];
}

const worksByDuration: Effect['work'][] = ['catalog', 'rows', 'scan', 'index', 'rewrite'];
const pickLonger = (one: Effect, other: Effect): Effect =>
  worksByDuration.indexOf(one.work) < worksByDuration.indexOf(other.work) ? other : one;

/** Keeps each table and lock once, with the longest work. */
function mergeEffects(effects: Effect[]): Effect[] {
  const known = new Map<string, Effect>();
  for (const each of effects) {
    const key = `${each.table} ${each.blocks}`;
    known.set(key, pickLonger(known.get(key) ?? each, each));
  }
  return [...known].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, effect]) => effect);
}

/** Applies a migration as `migrate` does, and returns its measured effects. */
export async function measureMigration(client: pg.Client, sql: string): Promise<Effect[]> {
  const effects: Effect[] = [];
  await client.query(recordTables);
  for (const statement of statementsOf(sql)) {
    const isConcurrent = /\bindex concurrently\b/.test(statement);
    await client.query(isConcurrent ? 'select' : 'begin');
    await client.query(statement);
    const { rows } = await client.query<TableChange>(readChanges);
    if (!isConcurrent) await client.query('commit');
    effects.push(...rows.flatMap(toEffects));
  }
  await client.query('drop table seen_tables, seen_indexes');
  return mergeEffects(effects);
}
