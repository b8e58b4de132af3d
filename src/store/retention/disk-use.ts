/** Reads how many bytes the tables of each class of retention take, for a forecast of the disk. */
import { type TimedClass, timedClasses } from '../../lifecycle/limits/retention-classes.ts';
import type { Queryable } from '../pg/database.ts';

/** Besides the classes: evidence, its seals, and all other tables. */
export const diskUses = [...(Object.keys(timedClasses) as TimedClass[]), 'evidence', 'seals', 'other'] as const;
export type DiskUse = (typeof diskUses)[number];

const sealTables = [
  'evidence_checkpoints',
  'evidence_segments',
  'evidence_late_rows',
  'evidence_keys',
  'evidence_cuts',
];

const useByTable = new Map<string, DiskUse>([
  ...(Object.keys(timedClasses) as TimedClass[]).flatMap((name) =>
    timedClasses[name].tables.map((table): [string, DiskUse] => [table, name]),
  ),
  ['evidence', 'evidence'],
  ...sealTables.map((table): [string, DiskUse] => [table, 'seals']),
]);

/**
 * Sums the sizes of the files of each table, with its indexes and partitions. Reads the catalogue
 * and the file system, no rows.
 */
export async function readBytesByUse(db: Queryable): Promise<Map<DiskUse, number>> {
  const rows = await db.query<{ name: string; bytes: string }>(
    `select
       case space.nspname when 'dbos' then 'dbos.*' else coalesce(root.relname, cls.relname) end as name,
       sum(pg_total_relation_size(cls.oid)) as bytes
     from pg_class cls
     join pg_namespace space on space.oid = cls.relnamespace
     left join pg_class root on root.oid = pg_partition_root(cls.oid)
     where space.nspname in ('public', 'dbos')
       and cls.relkind = 'r'
     group by 1`,
  );
  const bytes = new Map<DiskUse, number>(diskUses.map((use) => [use, 0]));
  for (const row of rows) {
    const use = useByTable.get(row.name) ?? 'other';
    bytes.set(use, (bytes.get(use) ?? 0) + Number(row.bytes));
  }
  return bytes;
}
