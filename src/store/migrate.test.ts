/**
 * Tests migrations from an empty database to the recorded schema: once, repeated, concurrent and
 * interrupted.
 */
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { emptyDatabase, type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { until } from '../../test/support/until.ts';
import { wholeFleet } from '../lifecycle/visibility.ts';
import { readLines } from './logs/node-logs.ts';
import { type LockHolder, migrate } from './migrate.ts';
import { type Database, openDatabase } from './pg/database.ts';
import { dumpSchema } from './testing/schema-dump.ts';
import { SchemaTooNew } from './upgrade/window.ts';

const migrationsDir = join(import.meta.dirname, 'migrations');
const schemaFile = join(import.meta.dirname, 'schema.txt');
const migrationNames = (await readdir(migrationsDir)).filter((name) => name.endsWith('.sql')).sort();

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function open(creation: Promise<TestDatabase>): Promise<{ url: string; db: Database }> {
  const database = await creation;
  cleanups.push(database.drop);
  const db = openDatabase({ url: database.url });
  cleanups.push(db.close);
  return { url: database.url, db };
}

/** Returns a folder with all migrations and one more. */
async function folderWith(name: string, sql: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-migrations-'));
  cleanups.push(() => rm(folder, { recursive: true }));
  for (const each of migrationNames) await copyFile(join(migrationsDir, each), join(folder, each));
  await writeFile(join(folder, name), sql);
  return folder;
}

test('migrations produce the schema of schema.txt', async () => {
  const { url, db } = await open(emptyDatabase());
  await migrate(url);
  const dump = await dumpSchema(db);
  if (process.env.SLIPWAY_WRITE_SCHEMA) await writeFile(schemaFile, dump);
  expect(dump).toBe(await readFile(schemaFile, 'utf8'));
});

test('migrates log lines from rows to chunks, in order and with their allocations', async () => {
  const { url, db } = await open(emptyDatabase());
  const folder = await mkdtemp(join(tmpdir(), 'slipway-migrations-'));
  cleanups.push(() => rm(folder, { recursive: true }));
  for (const each of migrationNames.filter((name) => name < '0009'))
    await copyFile(join(migrationsDir, each), join(folder, each));
  await migrate(url, { folder });
  await db.query(`
    insert into pools (name, driver, generation, created_at, updated_at) values ('p', 'external', 1, now(), now());
    insert into pool_generations (pool, generation, document, created_at) values ('p', 1, '{}', now());
    insert into nodes (node_id, pool, pool_generation, name, status, status_since, created_at) values ('n', 'p', 1, 'n', 'ready', now(), now());
    insert into instances (node_instance_id, node_id, attempt, created_at) values ('i', 'n', 1, now());
    insert into node_logs (node_instance_id, seq, node_id, allocation_id, at, stream, line)
      select 'i', n * 2, 'n', case when n between 1201 and 1500 then 'alloc_mine' end, '2026-01-01T00:00:00.250Z', 'stdout', 'say "' || n || '" – done' from generate_series(1, 2500) as n`);
  await migrate(url);
  const { items } = await readLines(db, { node_id: 'n', visibility: wholeFleet, limit: 5000 });
  const line = (n: number) => ({
    node_instance_id: 'i',
    seq: n * 2,
    at: '2026-01-01T00:00:00.250Z',
    stream: 'stdout',
    line: `say "${n}" – done`,
  });
  expect(items).toEqual(Array.from({ length: 2500 }, (_, i) => line(i + 1)));
  const allocated = await db.query(
    'select min(first_seq)::int as first, max(last_seq)::int as last, sum(lines)::int as lines from node_log_chunks where allocation_id is not null',
  );
  expect(allocated).toEqual([{ first: 2402, last: 3000, lines: 300 }]);
  expect(await db.query('select last_seq::int from node_log_ends')).toEqual([{ last_seq: 5000 }]);
});

test('migrates boot signs from sentences to kind and code', async () => {
  const { url, db } = await open(emptyDatabase());
  const folder = await mkdtemp(join(tmpdir(), 'slipway-migrations-'));
  cleanups.push(() => rm(folder, { recursive: true }));
  for (const each of migrationNames.filter((name) => name < '0057'))
    await copyFile(join(migrationsDir, each), join(folder, each));
  await migrate(url, { folder });
  await db.query(`
    insert into pools (name, driver, generation, created_at, updated_at) values ('p', 'external', 1, now(), now());
    insert into pool_generations (pool, generation, document, created_at) values ('p', 1, '{}', now());
    insert into nodes (node_id, pool, pool_generation, name, status, status_since, created_at) values ('n', 'p', 1, 'n', 'ready', now(), now());
    insert into instances (node_instance_id, node_id, attempt, created_at) values ('i', 'n', 1, now())`);
  // Replicas of earlier versions write sentences, also during a rollout.
  const write = (...signs: string[]) =>
    db.query(
      `insert into boot_signs (node_instance_id, sign, seen_at)
       select 'i', sign, '2026-01-01T00:00:00Z'::timestamptz + make_interval(secs => place)
       from unnest($1::text[]) with ordinality as list(sign, place)
       on conflict do nothing returning sign`,
      [signs],
    );
  const sentences = [
    ['an operator gave it more time', 'extended', '', null],
    ['crashed kernel_panic it ended: not syncing', 'crash', 'kernel_panic', 'it ended: not syncing'],
    ['certain failure oom', 'certain_failure', 'oom', null],
    ['told failure oom', 'reported_failure', 'oom', null],
    ['certain diagnosis disk_full', 'certain_diagnosis', 'disk_full', null],
    ['diagnosis disk_full', 'diagnosis', 'disk_full', null],
    ['provider state running', 'provider_state', 'running', null],
    ['boot stage init/network', 'boot_stage', 'init/network', null],
    ['reports pulling image', 'reported_stage', 'pulling image', null],
    ['image: pulled', 'part', 'image: pulled', null],
  ] as const;
  await write(...sentences.map(([sentence]) => sentence), 'crashed kernel_panic seen again');
  await migrate(url);
  // An interrupted online migration runs again from its first statement.
  await db.query('delete from schema_migrations where version = 57');
  await migrate(url);
  const readSigns = () => db.query<object>('select kind, code, detail, sign from boot_signs order by seen_at');
  const converted = sentences.map(([sign, kind, code, detail]) => ({ kind, code, detail, sign }));
  expect(await readSigns()).toEqual(converted);
  expect(await write('boot stage init/network', 'boot stage final')).toEqual([{ sign: 'boot stage final' }]);
  await db.query(
    `insert into boot_signs (node_instance_id, kind, code, detail, seen_at) values ('i', 'crash', 'oom', 'it ended', now()), ('i', 'part', 'disk: made', null, now())`,
  );
  expect(await readSigns()).toEqual(
    expect.arrayContaining([
      { kind: 'boot_stage', code: 'final', detail: null, sign: 'boot stage final' },
      { kind: 'crash', code: 'oom', detail: 'it ended', sign: 'crashed oom it ended' },
      { kind: 'part', code: 'disk: made', detail: null, sign: null },
    ]),
  );
});

test('the dump shows changes of columns, defaults, constraints, indexes and partitions', async () => {
  const { db } = await open(testDatabase());
  const changes = [
    'alter table nodes add column extra text',
    'alter table nodes alter column labels drop default',
    'alter table nodes alter column name drop not null',
    'alter table nodes alter column zone type varchar(5)',
    'alter table allocations drop constraint allocations_status_check',
    'drop index allocations_exclusive',
    'drop table evidence_api_rest',
    'alter table heartbeats reset (fillfactor)',
    'create view live as select 1 as one',
    `create function noop() returns int language sql as 'select 1'`,
  ];
  let before = await dumpSchema(db);
  for (const change of changes) {
    await db.query(change);
    const after = await dumpSchema(db);
    expect(after, change).not.toBe(before);
    before = after;
  }
});

test('migrates an empty database, and does nothing the second time', async () => {
  const { url, db } = await open(emptyDatabase());
  expect(await migrate(url)).toEqual({ applied: migrationNames });
  expect(await dumpSchema(db)).toBe(await readFile(schemaFile, 'utf8'));
  expect(await migrate(url)).toEqual({ applied: [] });
});

test('concurrent replicas apply each migration once', async () => {
  const { url, db } = await open(emptyDatabase());
  const results = await Promise.all(Array.from({ length: 4 }, () => migrate(url)));
  expect(results.flatMap((result) => result.applied)).toEqual(migrationNames);
  const rows = await db.query<{ name: string }>('select name from schema_migrations order by version');
  expect(rows.map((row) => row.name)).toEqual(migrationNames);
});

test('refuses a newer schema and leaves it unchanged', async () => {
  const { url, db } = await open(testDatabase());
  await db.query(`insert into schema_migrations (version, name) values (9000, '9000-from-the-future.sql')`);
  const before = await dumpSchema(db);
  const refused = await migrate(url).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(SchemaTooNew);
  expect(String(refused)).toContain('9000');
  expect(await dumpSchema(db)).toBe(before);
});

test('rolls back a failed migration and keeps the earlier ones', async () => {
  const { url, db } = await open(emptyDatabase());
  const folder = await folderWith('0900-broken.sql', 'create table half (id integer); select 1 / 0;');
  await expect(migrate(url, { folder })).rejects.toThrow('division by zero');
  expect(await db.query(`select 1 from pg_class where relname = 'half'`)).toEqual([]);
  expect(await migrate(url)).toEqual({ applied: [] });
  await writeFile(join(folder, '0900-broken.sql'), 'create table half (id integer);');
  expect(await migrate(url, { folder })).toEqual({ applied: ['0900-broken.sql'] });
});

test('rolls back an interrupted migration and releases its lock', async () => {
  const { url, db } = await open(testDatabase());
  const folder = await folderWith('0900-slow.sql', 'create table half (id integer); select pg_sleep(60);');
  const interrupted = expect(migrate(url, { folder })).rejects.toThrow();
  await until('the migration to run', async () => {
    const [running] = await db.query<{ pid: number }>(
      `select pid from pg_stat_activity where datname = current_database() and application_name = 'slipway migrate' and query like '%pg_sleep%'`,
    );
    return running && (await db.query('select pg_terminate_backend($1)', [running.pid])).length > 0;
  });
  await interrupted;
  expect(await db.query(`select 1 from pg_class where relname = 'half'`)).toEqual([]);
  expect(await migrate(url)).toEqual({ applied: [] });
});

test('a migration that waits for a lock lets other statements pass', async () => {
  const { url, db } = await open(testDatabase());
  const folder = await folderWith('0900-column.sql', 'alter table heartbeats add column extra integer');
  const { migrating } = await db.transaction(async (tx) => {
    await tx.query('lock table heartbeats in row exclusive mode');
    const promise = migrate(url, { folder });
    await until('the migration to wait', async () => {
      const waiting = await db.query(
        `select 1 from pg_stat_activity where datname = current_database() and application_name = 'slipway migrate' and wait_event_type = 'Lock'`,
      );
      return waiting.length > 0;
    });
    // Without the lock timeout this would queue behind the migration forever.
    await db.query('update heartbeats set interval_seconds = 1');
    // A returned promise would be awaited before the transaction ends.
    return { migrating: promise };
  });
  expect(await migrating).toEqual({ applied: ['0900-column.sql'] });
});

test('some waits for a lock are long enough for PostgreSQL to cancel an autovacuum', async () => {
  const { url, db } = await open(testDatabase());
  const folder = await folderWith('0900-column.sql', 'alter table heartbeats add column extra integer');
  const { migrating } = await db.transaction(async (tx) => {
    await tx.query('lock table heartbeats in row exclusive mode');
    const promise = migrate(url, { folder });
    // A long wait ends 500 ms after deadlock_timeout. A client on a busy machine could miss that
    // half second, so PostgreSQL itself checks every 20 ms.
    await db.query(
      `do $$ begin
         for i in 1..3000 loop
           if exists (
             select from pg_locks
             where relation = 'heartbeats'::regclass
               and database = (select oid from pg_database where datname = current_database())
               and clock_timestamp() - waitstart > current_setting('deadlock_timeout')::interval
           ) then
             return;
           end if;
           perform pg_sleep(0.02);
         end loop;
         raise 'the migration never waited longer than deadlock_timeout';
       end $$`,
    );
    return { migrating: promise };
  });
  expect(await migrating).toEqual({ applied: ['0900-column.sql'] });
});

test('builds an online index once when two replicas start together, and rebuilds an invalid index', async () => {
  const { url, db } = await open(testDatabase());
  const sql =
    '-- online: says why\ncreate index concurrently if not exists extra on nodes (zone, name);\n\n-- The end.\n';
  const folder = await folderWith('0900-index.sql', sql);
  const results = await Promise.all([migrate(url, { folder }), migrate(url, { folder })]);
  expect(results.flatMap(({ applied }) => applied)).toEqual(['0900-index.sql']);
  await db.query(`delete from schema_migrations where version = 900`);
  await db.query(`update pg_index set indisvalid = false where indexrelid = 'extra'::regclass`);
  await migrate(url, { folder });
  expect(await db.query(`select indisvalid from pg_index where indexrelid = 'extra'::regclass`)).toEqual([
    { indisvalid: true },
  ]);
});

test('reports the session that holds the migration lock, and continues when it is released', async () => {
  const { url, db } = await open(emptyDatabase());
  const holder = await db.connect('another server');
  cleanups.push(() => holder.end());
  await holder.query('select pg_advisory_lock(7213001)');
  const { rows } = await holder.query('select pg_backend_pid() as pid');
  const reported: LockHolder[] = [];
  const migrated = migrate(url, { onWait: (each) => reported.push(each) });
  await until('the holder to be reported', () => reported.length > 0);
  expect(reported).toMatchObject([{ pid: rows[0].pid, application: 'another server', since: expect.any(Date) }]);
  // Null for a connection by Unix socket.
  expect([null, '127.0.0.1']).toContain(reported[0]?.address);
  await holder.query('select pg_advisory_unlock(7213001)');
  expect((await migrated).applied).toEqual(migrationNames);
});
