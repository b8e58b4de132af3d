/**
 * Reads every row that a real server wrote for its allocations, and inserts copies of them with
 * other ids at other times. So a year of allocations has the rows of real ones, without their
 * waiting times.
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

export interface Lives {
  count: number;
  tables: TableRows[];
  /** When the last of these lives ended. */
  ended: Date;
}

/** A parent is inserted before the rows that name it. The other tables follow. */
const order = ['nodes', 'instances', 'allocations', 'operations', 'workflow_status'];
/** Written by the sealer, the triggers and the replica itself. */
const excluded = ['counts', 'evidence_checkpoints', 'evidence_segments', 'evidence_late_rows', 'replicas', 'pools'];
/** Given by the database to each new row. */
const given = ['xid', 'seq', 'message_uuid'];

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

/** The rows that name an allocation, a machine or an operation, in the order in which they came. */
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

/** An allocation is released a moment before its operation ends. */
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

export async function readLives(db: Database): Promise<Lives> {
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
    if (excluded.includes(table)) continue;
    const batches = await rowsOf(db, schema, table);
    if (batches.length > 0) tables.push({ schema, table, columns: await columnsOf(db, schema, table), batches });
  }
  const place = ({ table }: TableRows) => (order.includes(table) ? order.indexOf(table) : order.length);
  tables.sort((a, b) => place(a) - place(b));
  const [{ count = 0, ended } = {}] = await db.query<{ count: number; ended: Date }>(
    `select count(*)::int as count, max(status_since) as ended from allocations where status = 'released'`,
  );
  if (!count || !ended) throw new Error('the server released no allocation');
  return { count, tables, ended };
}

/** The lives name a pool, which is the same for all copies. */
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

const shifted = ({ name, type }: Column): string => {
  if (type === 'timestamp with time zone') return `"${name}" + make_interval(secs => $2::double precision / 1000)`;
  // Hashes of credentials are unique.
  if (type === 'bytea' && name.endsWith('_hash'))
    return `sha256(convert_to(node_instance_id || "${name}"::text, 'UTF8'))`;
  if (type === 'bigint')
    return `case when "${name}" > 1600000000000 then "${name}" + $2::double precision::bigint else "${name}" end`;
  return `"${name}"`;
};

const insertCopies = ({ schema, table, columns }: TableRows): string => {
  const copied = columns.filter(({ name }) => !given.includes(name));
  return `
    insert into ${schema}.${table} (${copied.map(({ name }) => `"${name}"`).join(', ')})
    select ${copied.map(shifted).join(', ')}
    from jsonb_populate_recordset(null::${schema}.${table}, $1::jsonb)
    where $2::double precision is not null`;
};

/**
 * Inserts one copy of all lives, so that the last one ends at `ended`. Calls `seal` as often as the
 * server did.
 */
export async function insertLives(
  db: Database,
  lives: Lives,
  copy: { number: number; ended: Date },
  seal: () => Promise<void>,
): Promise<void> {
  const shiftMs = copy.ended.getTime() - lives.ended.getTime();
  for (const rows of lives.tables) {
    const sql = insertCopies(rows);
    for (const batch of rows.batches) {
      await db.query(sql, [batch.replace(idPattern, (id) => copiedId(id, copy.number, shiftMs)), shiftMs]);
      if (rows.table === 'evidence') await seal();
    }
  }
}
