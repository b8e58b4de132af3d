/**
 * Tests that a backup restored into another cluster has every row, the same schema and a clean
 * history, and that a refused backup or database changes nothing.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  emptyDatabase,
  execute,
  type TestDatabase,
  testDatabase,
  withClient,
  withDatabase,
} from '../../test/support/database.ts';
import {
  type FreshCluster,
  freshCluster,
  listTableNames,
  readDigests,
  readEras,
  useTransactionIds,
} from '../../test/support/restored-store.ts';
import { type SealedStore, sealedStore, verifyAll } from '../../test/support/sealed-store.ts';
import { until } from '../../test/support/until.ts';
import type { NodeId } from '../base/ids.ts';
import { dbosSchema } from '../engine/dbos-schema.ts';
import type { EngineSchema } from '../store/backup/engine-schema.ts';
import { loadDatabase } from '../store/backup/load-database.ts';
import type { BackupRecord } from '../store/backup/records.ts';
import { isSettledSql, resumeFrom } from '../store/evidence/commit-order.ts';
import { compareSlice } from '../store/history/row-comparison.ts';
import { createSealer } from '../store/integrity/sealer.ts';
import { migrate, migrationLock } from '../store/migrate.ts';
import { type Database, openDatabase } from '../store/pg/database.ts';
import { testFleet } from '../store/testing/fleet.ts';
import { dumpSchema } from '../store/testing/schema-dump.ts';
import { openBackup } from './read-backup.ts';
import { moveDatabase, restoreBackup } from './restore.ts';
import { type TakenBackup, takeBackup } from './take-backup.ts';

const at = new Date('2030-01-01T00:00:00Z');

let source: SealedStore;
let node_id: NodeId;
let nodes: number;
let cluster: FreshCluster;
let directory: string;
let taken: TakenBackup;
const cleanups: (() => Promise<void>)[] = [];

async function listFilledTables(url: string): Promise<string[]> {
  const content = Object.entries(await readDigests(url)).filter(([, digest]) => !digest.startsWith('0 '));
  return content.map(([name]) => name).sort();
}

const writtenByMigrations = ['dbos.dbos_migrations', 'public.evidence_eras', 'public.schema_migrations'];

async function createTarget(): Promise<string> {
  const name = `restored_${randomBytes(4).toString('hex')}`;
  await execute(cluster.url, `create database ${name}`);
  return withDatabase(cluster.url, name);
}

const keys = () => ({ path: source.ring.path, all: source.ring.all });
const restore = (file: string, url: string) =>
  restoreBackup({ file, into: { url, data_dir: '' }, keys: keys(), log: () => {} });
const place = (name: string) => join(directory, name);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-backups-'));
  cluster = await freshCluster();
  source = await sealedStore();
  const { dba, db } = source;
  await useTransactionIds(dba, 20_000);
  const fleet = await testFleet(db);
  node_id = (await fleet.node('ready')).node_id;
  await fleet.allocation('active');
  await dba.query(`select evidence_extend('rule', '2030-01-01'), evidence_extend('node', '2030-02-01')`);
  await dba.query(`select evidence_extend('rule', '2030-03-01')`);
  await source.facts(20);
  await source.facts(20, 'node');
  await source.sealAll();
  await dba.query(`insert into replicas (replica_id, host, pid, address, version, started_at, lease_until)
    values ('rep_1', 'h', 1, 'a', 'v', now(), now()), ('rep_2', 'h', 1, 'a', 'v', now(), now())`);
  // Text and bytes that COPY must escape.
  await dba.query(
    `insert into installation (installation_id, enrollment_secret, session_secret, created_at)
    values ('slipway-test', $1, '\\x00', now())`,
    [Buffer.from('\\.\n\t\0\xff', 'latin1')],
  );
  await dba.query(`update nodes set labels = '{"tab\\there": "\\\\N and \\\\. and €"}' where node_id = $1`, [node_id]);
  await dba.query(`insert into restorations (sign, began_at, ended_at) values ('other_cluster', now(), now())`);
  await dba.query(`insert into dbos.workflow_status (workflow_uuid, status, name) values ('wf', 'SUCCESS', 'n')`);
  await dba.query(`insert into dbos.notifications (destination_uuid, message) values ('wf', 'm')`);
  nodes = (await dba.query('select from nodes')).length;
  taken = await takeBackup({ url: dba.url, to: directory, keep: null, key_ring: source.ring });
});

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

afterAll(async () => {
  await source.close();
  await cluster.stop();
  await rm(directory, { recursive: true });
});

const openTemporary = async (database: Promise<TestDatabase>): Promise<TestDatabase> => {
  const opened = await database;
  cleanups.push(opened.drop);
  return opened;
};

describe('a restored backup', () => {
  let url: string;
  let db: Database;
  beforeAll(async () => {
    url = await createTarget();
    await restore(taken.file, url);
    db = openDatabase({ url });
    return () => db.close();
  });

  test('has every row, the same schema and the same sequences', async () => {
    const restored = await readDigests(url);
    expect(restored).toEqual(await readDigests(source.dba.url));
    expect(Object.keys(restored)).toHaveLength(taken.tables);
    expect(restored['dbos.notifications']).toMatch(/^1 /);
    expect(await dumpSchema(db)).toBe(await dumpSchema(source.dba));
    const next = `select nextval('evidence_seq') as evidence, nextval('replicas_epoch_seq') as epoch`;
    const [value] = await source.dba.query<{ evidence: string; epoch: string }>(next);
    // The restore recorded one fact.
    expect(await db.query(next)).toEqual([{ evidence: String(Number(value?.evidence) + 1), epoch: '3' }]);
  });

  test('has working triggers and constraints', async () => {
    const disabled = await db.query(`select tgname from pg_trigger where tgenabled = 'D'`);
    expect(disabled).toEqual([]);
    await expect(db.query(`insert into boot_signs (node_instance_id, seen_at) values ('x', now())`)).rejects.toThrow();
    await expect(
      db.query(`insert into dbos.notifications (destination_uuid, message) values ('no such run', 'm')`),
    ).rejects.toMatchObject({ code: '23503' });
  });

  test('opens a restoration, besides the ended ones of the backup', async () => {
    expect(await db.query('select sign, ended_at is null as is_open from restorations order by began_at')).toEqual([
      { sign: 'other_cluster', is_open: false },
      { sign: 'backup_loaded', is_open: true },
    ]);
  });

  test('is in a new era, passes the verification of its evidence, and has no drift', async () => {
    expect((await migrate(url)).restored).toBeUndefined();
    expect(await readEras(url)).toEqual([
      { era: '0', sign: null },
      { era: '1', sign: 'backup_loaded' },
    ]);
    await until('all evidence to settle', async () => {
      const [row] = await db.query<{ all: boolean }>(`select bool_and(${isSettledSql}) as all from evidence`);
      return row?.all;
    });
    const sealer = createSealer({ db, key_ring: source.ring, installation: { installation_id: 'slipway-test' } });
    while ((await sealer.sealBatch(at)).more);
    const verified = await verifyAll(db, source.signer);
    expect(verified).toMatchObject({ faults: [], more_faults: 0, unsealed: 0 });
    expect(verified.rows).toBeGreaterThan(40);
    expect((await compareSlice(db, 'allocations', { cursor: '', limit: 100 })).differing).toEqual([]);
  });
});

test('a restore into the cluster of the source begins an era, so that readers of later facts get a reset', async () => {
  const { url } = await openTemporary(emptyDatabase());
  await restore(taken.file, url);
  expect((await migrate(url)).restored).toBeUndefined();
  expect(await readEras(url)).toMatchObject([{ era: '0' }, { era: '1', sign: 'backup_loaded' }]);
  /** A position of the first era, after every fact of the backup. */
  const later = { xid: String(2n ** 48n - 1n), seq: '1' };
  const db = openDatabase({ url, max_connections: 1 });
  try {
    expect(await resumeFrom(db, later)).toMatchObject({ lost: true });
  } finally {
    await db.close();
  }
});

test('a role that is no superuser restores into a database that it owns', async () => {
  const name = `owned_${randomBytes(4).toString('hex')}`;
  await execute(cluster.url, `create role ${name} login password 'secret'`, `create database ${name} owner ${name}`);
  const url = new URL(withDatabase(cluster.url, name));
  url.username = name;
  url.password = 'secret';
  await restore(taken.file, url.href);
  expect(await readDigests(url.href)).toEqual(await readDigests(source.dba.url));
});

describe('refuses, and writes nothing', () => {
  const expectRefusal = async (file: string, code: string) => {
    const { url } = await openTemporary(emptyDatabase());
    await expect(restore(file, url)).rejects.toMatchObject({ name: 'BackupRefused', code });
    expect(await listTableNames(url)).toEqual([]);
  };

  test('a changed byte', async () => {
    const bytes = await readFile(taken.file);
    bytes[bytes.length - 500] = (bytes[bytes.length - 500] ?? 0) ^ 1;
    await writeFile(place('changed'), bytes);
    await expectRefusal(place('changed'), 'backup_damaged');
  });

  test('a truncated file', async () => {
    const bytes = await readFile(taken.file);
    await writeFile(place('cut'), bytes.subarray(0, bytes.length - 1000));
    await expectRefusal(place('cut'), 'backup_truncated');
  });

  test('another key', async () => {
    const { url } = await openTemporary(emptyDatabase());
    const other = [{ kid: 'key_other', created_at: '', secret: randomBytes(32) }];
    const into = { url, data_dir: '' };
    await expect(
      restoreBackup({ file: taken.file, into, keys: { path: 'other.json', all: other }, log: () => {} }),
    ).rejects.toMatchObject({ code: 'key_missing', why: expect.stringContaining('other.json') });
    expect(await listTableNames(url)).toEqual([]);
  });

  test('a backup of a newer schema', async () => {
    const newer = await openTemporary(testDatabase());
    await withClient(newer.url, async (client) => {
      await client.query(`insert into schema_migrations (version, name) values (9999, '9999-later.sql')`);
    });
    const { file } = await takeBackup({ url: newer.url, to: place('newer'), keep: null, key_ring: source.ring });
    await expectRefusal(file, 'schema_newer');
  });

  test('a backup with newer engine tables', async () => {
    const newer = await openTemporary(testDatabase());
    await withClient(newer.url, async (client) => {
      await client.query('update dbos.dbos_migrations set version = 9999');
    });
    const { file } = await takeBackup({ url: newer.url, to: place('newer-engine'), keep: null, key_ring: source.ring });
    await expectRefusal(file, 'schema_newer');
  });

  test('a database with rows', async () => {
    const used = await openTemporary(testDatabase());
    await withClient(used.url, async (client) => {
      await client.query(`insert into counts (of, status, change) values ('nodes', 'ready', 1)`);
    });
    const before = await readDigests(used.url);
    await expect(restore(taken.file, used.url)).rejects.toMatchObject({ code: 'database_not_empty' });
    expect(await readDigests(used.url)).toEqual(before);
  });

  test("a database with another program's rows, before it creates a table", async () => {
    const foreign = await openTemporary(emptyDatabase());
    await withClient(foreign.url, (client) => client.query('create table orders as select 1 as order_id'));
    await expect(restore(taken.file, foreign.url)).rejects.toMatchObject({ code: 'database_not_empty' });
    expect(await listTableNames(foreign.url)).toEqual(['public.orders']);
  });

  test('a database that gets rows while its tables are created', async () => {
    const url = await createTarget();
    const backup = await openBackup(taken.file, keys());
    const engine: EngineSchema = {
      ...dbosSchema,
      async create(client, version) {
        await dbosSchema.create(client, version);
        await client.query(`insert into counts (of, status, change) values ('nodes', 'ready', 1)`);
      },
    };
    const load = loadDatabase({ url, backup: backup.header, engine, records: backup.records });
    await expect(load).rejects.toMatchObject({ code: 'database_not_empty' });
    expect(await listFilledTables(url)).toEqual([...writtenByMigrations, 'public.counts'].sort());
  });

  test('a database with a table that another session has locked', async () => {
    const locked = await openTemporary(testDatabase());
    const { header, records } = await openBackup(taken.file, keys());
    await withClient(locked.url, async (client) => {
      await client.query('begin; lock table nodes in access share mode');
      const limits = { connect_ms: 5_000, lock_ms: 300 };
      const load = loadDatabase({ url: locked.url, backup: header, engine: dbosSchema, records, limits });
      await expect(load).rejects.toMatchObject({ name: 'BackupRefused', code: 'database_in_use' });
    });
    expect(await listFilledTables(locked.url)).toEqual(writtenByMigrations);
  });

  test('a database that a server is migrating', async () => {
    const { url } = await openTemporary(emptyDatabase());
    await withClient(url, async (client) => {
      await client.query('select pg_advisory_lock($1)', [migrationLock]);
      await expect(restore(taken.file, url)).rejects.toMatchObject({ name: 'BackupRefused', code: 'database_in_use' });
    });
    expect(await listTableNames(url)).toEqual([]);
  });

  test('a database with a newer schema than the backup', async () => {
    const newer = await openTemporary(testDatabase());
    await withClient(newer.url, async (client) => {
      await client.query(`insert into schema_migrations (version, name) values (9999, '9999-later.sql')`);
    });
    await expect(restore(taken.file, newer.url)).rejects.toMatchObject({ code: 'database_newer' });
    expect(await listFilledTables(newer.url)).toEqual(writtenByMigrations);
  });
});

async function* changeRecords(
  records: AsyncGenerator<BackupRecord>,
  change: (record: BackupRecord) => BackupRecord | undefined,
): AsyncGenerator<BackupRecord> {
  for await (const record of records) {
    const after = change(record);
    if (after) yield after;
  }
}

test.for<[string, (record: BackupRecord) => BackupRecord | undefined]>([
  [
    'a row count that is too high',
    (record) => (record.kind === 'table_end' ? { ...record, rows: record.rows + 1 } : record),
  ],
  ['totals that lack its tables', (record) => (record.kind === 'end' ? { ...record, tables: {} } : record)],
  ['no end', (record) => (record.kind === 'end' ? undefined : record)],
  [
    'an unknown table',
    (record) => (record.kind === 'table' && record.table === 'tokens' ? { ...record, table: 'other' } : record),
  ],
])('a load with %s leaves no row, and a later one succeeds', async ([, change]) => {
  const backup = await openBackup(taken.file, keys());
  const url = await createTarget();
  const load = (records: () => AsyncGenerator<BackupRecord>) =>
    loadDatabase({ url, backup: backup.header, engine: dbosSchema, records });
  await expect(load(() => changeRecords(backup.records(), change))).rejects.toMatchObject({ name: 'BackupRefused' });
  expect(await listFilledTables(url)).toEqual(writtenByMigrations);
  await restore(taken.file, url);
  expect(await readDigests(url)).toEqual(await readDigests(source.dba.url));
});

test('an error before the commit undoes the whole load', async () => {
  const backup = await openBackup(taken.file, keys());
  const url = await createTarget();
  const load = loadDatabase({
    url,
    backup: backup.header,
    engine: dbosSchema,
    records: backup.records,
    async beforeCommit(client) {
      expect((await client.query('select from nodes')).rowCount).toBe(nodes);
      throw new Error('not marked');
    },
  });
  await expect(load).rejects.toThrow('not marked');
  expect(await listFilledTables(url)).toEqual(writtenByMigrations);
});

test('a server that starts meanwhile waits until all rows are loaded', async () => {
  const backup = await openBackup(taken.file, keys());
  const url = await createTarget();
  let waited = false;
  let started: Promise<unknown> = Promise.resolve();
  await loadDatabase({
    url,
    backup: backup.header,
    engine: dbosSchema,
    records: backup.records,
    async beforeCommit() {
      started = migrate(url, {
        onWait: () => {
          waited = true;
        },
      });
      await until('the start to wait', () => waited);
    },
  });
  await started;
  expect(await listFilledTables(url)).toContain('public.nodes');
});

test('moves a database, and the next start does not take it for a restored one', async () => {
  const url = await createTarget();
  await moveDatabase(source.dba.url, url);
  expect(await readDigests(url)).toEqual(await readDigests(source.dba.url));
  expect((await migrate(url)).restored).toBeUndefined();
  expect(await readEras(url)).toMatchObject([{ era: '0' }, { era: '1', sign: 'other_cluster' }]);
  // The rows are up to date, so servers act at once.
  const open = await withClient(url, (client) => client.query('select from restorations where ended_at is null'));
  expect(open.rowCount).toBe(0);
});
