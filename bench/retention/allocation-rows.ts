/**
 * Reads every row that a real server wrote for its allocations, and inserts copies of these rows
 * with other ids and times. A simulated year therefore has real rows, but takes none of the time
 * that real allocations take.
 */
import { pause, systemClock } from '../../src/base/clock.ts';
import type { Database, Queryable } from '../../src/store/pg/database.ts';

interface Column {
  name: string;
  type: string;
}

interface TableRows {
  schema: string;
  table: string;
  columns: Column[];
  /** JSON arrays of rows. Evidence has one for each checkpoint, so copies are sealed as often. */
  batches: string[];
}

export interface AllocationRows {
  count: number;
  tables: TableRows[];
  /** When the last of these allocations was released. */
  ended: Date;
}

/** Tables whose rows other rows refer to, in the order of insertion. The other tables follow. */
const parentTables = ['nodes', 'instances', 'allocations', 'operations', 'workflow_status'];
/** Tables that the sealer, the triggers and the replica write; `copyPools` copies the pools. */
const excludedTables = [
  'counts',
  'evidence_checkpoints',
  'evidence_segments',
  'evidence_late_rows',
  'replicas',
  'pools',
];
/** Columns whose values the database assigns to each new row. */
const assignedColumns = ['xid', 'seq', 'message_uuid'];

const idPattern = /(alloc|node|inst|op|task)_[0-9a-z]{20}/g;
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const timeLength = 9;

const columnsOf = (db: Queryable, schema: string, table: string): Promise<Column[]> =>
  db.query<Column>(
    `select attname as name, format_type(atttypid, atttypmod) as type
     from pg_attribute
     where attrelid = ('"' || $1 || '"."' || $2 || '"')::regclass
       and attnum > 0
       and not attisdropped
       and attidentity = ''
       and attgenerated = ''`,
    [schema, table],
  );

/** Reads the rows that name an allocation, a machine or an operation; evidence in commit order. */
async function rowsOf(db: Queryable, schema: string, table: string): Promise<string[]> {
  const isEvidence = table === 'evidence';
  const rows = await db.query<{ text: string; batch: string }>(
    `select to_jsonb(source)::text as text,
       ${
         isEvidence
           ? `(select coalesce(min(position), 0) from evidence_checkpoints
               where (through_xid, through_seq) >= (source.xid, source.seq))`
           : '0'
       } as batch
     from ${schema}.${table} source
     where to_jsonb(source)::text ~ '(alloc|node|inst|op|task)_[0-9a-z]{20}'
     ${isEvidence ? 'order by source.xid, source.seq' : ''}`,
  );
  return [...Map.groupBy(rows, ({ batch }) => batch).values()].map(
    (batch) => `[${batch.map(({ text }) => text).join()}]`,
  );
}

/** Waits for the operations too, because an allocation is released before its operation ends. */
export async function waitUntilEnded(db: Database): Promise<void> {
  for (;;) {
    const open = await db.query(
      `select 1 from operations where status in ('queued', 'running', 'cancelling')
       union all
       select 1 from dbos.workflow_status where status in ('PENDING', 'ENQUEUED', 'DELAYED')`,
    );
    if (open.length === 0) return;
    await pause(systemClock, 50);
  }
}

export async function readAllocationRows(db: Database): Promise<AllocationRows> {
  const names = await db.query<{ schema: string; table: string }>(
    `select nspname as schema, relname as table
     from pg_class
     join pg_namespace space on space.oid = relnamespace
     where nspname in ('public', 'dbos')
       and relkind in ('r', 'p')
       and not relispartition`,
  );
  const tables: TableRows[] = [];
  for (const { schema, table } of names) {
    if (excludedTables.includes(table)) continue;
    const batches = await rowsOf(db, schema, table);
    if (batches.length > 0) tables.push({ schema, table, columns: await columnsOf(db, schema, table), batches });
  }
  const place = ({ table }: TableRows) =>
    parentTables.includes(table) ? parentTables.indexOf(table) : parentTables.length;
  tables.sort((a, b) => place(a) - place(b));
  const [{ count = 0, ended } = {}] = await db.query<{ count: number; ended: Date }>(
    `select count(*)::int as count, max(status_since) as ended from allocations where status = 'released'`,
  );
  if (!count || !ended) throw new Error('the server released no allocation');
  return { count, tables, ended };
}

/** Copies the pools, because the rows refer to a pool. All copies of the rows share the pool. */
export async function copyPools(from: Database, to: Database): Promise<void> {
  for (const table of ['pools', 'pool_generations']) {
    const [row] = await from.query<{ rows: string }>(`select jsonb_agg(source)::text as rows from ${table} source`);
    await to.query(`insert into ${table} select * from jsonb_populate_recordset(null::${table}, $1::jsonb)`, [
      row?.rows,
    ]);
  }
}

const timeOf = (text: string): number => [...text].reduce((ms, letter) => ms * 32 + alphabet.indexOf(letter), 0);

function timeText(ms: number): string {
  let text = '';
  for (let rest = ms, i = 0; i < timeLength; i++, rest = Math.floor(rest / 32))
    text = alphabet.charAt(rest % 32) + text;
  return text;
}

/** Moves the time in an id, and makes it unique by the number of the copy. */
const copiedId = (id: string, copy: number, shiftMs: number): string => {
  const start = id.indexOf('_') + 1;
  const time = timeText(timeOf(id.slice(start, start + timeLength)) + shiftMs);
  return `${id.slice(0, start)}${time}${id.slice(start + timeLength, -5)}${copy.toString(16).padStart(5, '0')}`;
};

const shiftedColumnSql = ({ name, type }: Column): string => {
  if (type === 'timestamp with time zone') return `"${name}" + make_interval(secs => $2::double precision / 1000)`;
  // Hashes of credentials are unique.
  if (type === 'bytea' && name.endsWith('_hash'))
    return `sha256(convert_to(node_instance_id || "${name}"::text, 'UTF8'))`;
  if (type === 'bigint')
    return `case when "${name}" > 1600000000000 then "${name}" + $2::double precision::bigint else "${name}" end`;
  return `"${name}"`;
};

const insertCopies = ({ schema, table, columns }: TableRows): string => {
  const copied = columns.filter(({ name }) => !assignedColumns.includes(name));
  // The condition gives $2 a type in tables of which no column is shifted.
  return `
    insert into ${schema}.${table} (${copied.map(({ name }) => `"${name}"`).join(', ')})
    select ${copied.map(shiftedColumnSql).join(', ')}
    from jsonb_populate_recordset(null::${schema}.${table}, $1::jsonb)
    where $2::double precision is not null`;
};

/**
 * Inserts one copy of all rows, so that the last allocation is released at `ended`. Calls `seal` as
 * often as the server did.
 */
export async function insertAllocationRows(
  db: Database,
  allocationRows: AllocationRows,
  copy: { number: number; ended: Date },
  seal: () => Promise<void>,
): Promise<void> {
  const shiftMs = copy.ended.getTime() - allocationRows.ended.getTime();
  for (const rows of allocationRows.tables) {
    const sql = insertCopies(rows);
    for (const batch of rows.batches) {
      await db.query(sql, [batch.replace(idPattern, (id) => copiedId(id, copy.number, shiftMs)), shiftMs]);
      if (rows.table === 'evidence') await seal();
    }
  }
}
