/**
 * Writes the schema as text, so that a change of the schema shows in review. The same schema gives
 * the same text, even if its objects were created in another order.
 */
import type { Queryable } from '../pg/database.ts';

interface Table {
  name: string;
  oid: number;
  kind: 'r' | 'p';
  options: string[] | null;
  partition_key: string | null;
  parent: string | null;
  bound: string | null;
}

const tables = `
  select cls.relname as name, cls.oid::int as oid, cls.relkind as kind, cls.reloptions as options,
    case cls.relkind when 'p' then pg_get_partkeydef(cls.oid) end as partition_key,
    parent.relname as parent, pg_get_expr(cls.relpartbound, cls.oid) as bound
  from pg_class cls
  left join pg_inherits inherited on inherited.inhrelid = cls.oid
  left join pg_class parent on parent.oid = inherited.inhparent
  where cls.relnamespace = 'public'::regnamespace
    -- Ordinary and partitioned tables.
    and cls.relkind in ('r', 'p')
  order by cls.relname collate "C"`;

const columns = `
  select att.attname as name, format_type(att.atttypid, att.atttypmod) as type, att.attnotnull as required,
    att.attidentity <> '' as identity, pg_get_expr(def.adbin, def.adrelid) as default_value
  from pg_attribute att
  left join pg_attrdef def on def.adrelid = att.attrelid and def.adnum = att.attnum
  where att.attrelid = $1
    -- System columns have negative numbers.
    and att.attnum > 0
    and not att.attisdropped
  order by att.attnum`;

const constraints = `
  select conname as name, pg_get_constraintdef(oid) as definition
  from pg_constraint
  where conrelid = $1
    -- "not null" is written with the column.
    and contype <> 'n'
  order by contype, conname collate "C"`;

const indexes = `
  select pg_get_indexdef(indexrelid) as definition
  from pg_index
  where indrelid = $1
    -- Indexes of primary keys and unique constraints are written as constraints.
    and not exists (select 1 from pg_constraint where conindid = indexrelid and contype in ('p', 'u'))
  order by pg_get_indexdef(indexrelid) collate "C"`;

const others = `
  select case relkind when 'S' then 'sequence' else 'view' end || ' ' || relname as line
  from pg_class
  where relnamespace = 'public'::regnamespace
    and relkind in ('S', 'v', 'm')
    -- Sequences of identity columns belong to their table.
    and not exists (select 1 from pg_depend where objid = pg_class.oid and deptype = 'i')
  union all
  select 'function ' || proname || '(' || pg_get_function_identity_arguments(oid) || ')'
  from pg_proc
  where pronamespace = 'public'::regnamespace
  union all
  select 'trigger ' || pg_get_triggerdef(oid)
  from pg_trigger
  where not tgisinternal
  order by 1`;

interface Column {
  name: string;
  type: string;
  required: boolean;
  identity: boolean;
  default_value: string | null;
}

const formatColumn = ({ name, type, required, identity, default_value }: Column): string =>
  [
    `  ${name} ${type}`,
    required ? ' not null' : '',
    identity ? ' generated as identity' : '',
    default_value === null ? '' : ` default ${default_value}`,
  ].join('');

async function describeTable(db: Queryable, table: Table): Promise<string[]> {
  const head = `table ${table.name}`;
  const partitioned = table.partition_key ? `  partitioned by ${table.partition_key}` : undefined;
  // A partition has the columns of its parent; only its bound differs.
  if (table.parent) return [`${head} of ${table.parent} ${table.bound}`, ...(partitioned ? [partitioned] : [])];
  const columnRows = await db.query<Column>(columns, [table.oid]);
  const constraintRows = await db.query<{ name: string; definition: string }>(constraints, [table.oid]);
  const indexRows = await db.query<{ definition: string }>(indexes, [table.oid]);
  return [
    head,
    ...columnRows.map(formatColumn),
    ...constraintRows.map(({ name, definition }) => `  constraint ${name} ${definition}`),
    ...indexRows.map(
      ({ definition }) =>
        `  ${definition.replace(/^CREATE (UNIQUE )?INDEX/, (_, unique) => `${unique ? 'unique ' : ''}index`)}`,
    ),
    ...(partitioned ? [partitioned] : []),
    ...(table.options ? [`  with ${table.options.join(', ')}`] : []),
  ];
}

export async function dumpSchema(db: Queryable): Promise<string> {
  const blocks: string[][] = [];
  for (const table of await db.query<Table>(tables)) blocks.push(await describeTable(db, table));
  blocks.push((await db.query<{ line: string }>(others)).map((row) => row.line));
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}
