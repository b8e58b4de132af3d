/** Measures the size of every table with its indexes, and decides whether a table still grows. */
import { otherTables } from '../../src/lifecycle/limits/retention-classes.ts';
import type { Database } from '../../src/store/pg/database.ts';

export type Sizes = Map<string, number>;

/** Partitions count for their table. The tables of the engine are listed with their schema. */
export async function tableSizes(db: Database): Promise<Sizes> {
  const rows = await db.query<{ name: string; bytes: string }>(
    `select
       case nspname when 'public' then '' else nspname || '.' end
         || coalesce(pg_partition_root(cls.oid)::regclass::text, cls.relname) as name,
       sum(pg_total_relation_size(cls.oid)) as bytes
     from pg_class cls
     join pg_namespace space on space.oid = relnamespace
     where nspname in ('public', 'dbos')
       and relkind in ('r', 'p')
     group by 1
     order by 1`,
  );
  return new Map(rows.map(({ name, bytes }) => [name, Number(bytes)]));
}

export const total = (sizes: Sizes): number => [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);

export const isNeverDeleted = (name: string): boolean =>
  name in otherTables && otherTables[name as keyof typeof otherTables].startsWith('for ever');

/** Page boundaries and free space make a table that does not grow vary by this much. */
const toleratedGrowth = 1.1;
const toleratedBytes = 512 * 1024;

export const isStillGrowing = (before: number, after: number): boolean =>
  after > before * toleratedGrowth + toleratedBytes;
