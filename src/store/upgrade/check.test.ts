/** The check reads from the database what an upgrade would do, and changes nothing. */
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { emptyDatabase, testDatabase } from '../../../test/support/database.ts';
import {
  contractStep,
  expandStep,
  migrateAsNext,
  nextMigrations,
  nextName,
} from '../../../test/support/next-version.ts';
import { now, secondsLater, systemClock } from '../../base/clock.ts';
import { packageVersion } from '../../base/files/package-root.ts';
import { newReplicaId } from '../../base/ids.ts';
import { migrate } from '../migrate.ts';
import { registerReplica } from '../operations/replicas.ts';
import { openDatabase } from '../pg/database.ts';
import { dumpSchema } from '../testing/schema-dump.ts';
import { checkUpgrade } from './check.ts';
import { knownSchema, type MigrationStep } from './migration-steps.ts';

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function open(creation = testDatabase()) {
  const database = await creation;
  cleanups.push(database.drop);
  const db = openDatabase({ url: database.url });
  cleanups.push(db.close);
  return { url: database.url, db };
}

async function check(url: string, options: Partial<Parameters<typeof checkUpgrade>[1]> = {}) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('begin transaction isolation level repeatable read read only');
    return await checkUpgrade(client, { free_bytes: 1e12, ...options });
  } finally {
    await client.end();
  }
}

async function checkNext(url: string, step: MigrationStep, options: Partial<Parameters<typeof checkUpgrade>[1]> = {}) {
  const { remove, ...next } = await nextMigrations(step);
  onTestFinished(remove);
  return check(url, { ...next, ...options });
}

/** The schema of the release 0.1.0. */
async function openFirstRelease() {
  const opened = await open(emptyDatabase());
  const own = join(import.meta.dirname, '../migrations');
  const folder = await mkdtemp(join(tmpdir(), 'slipway-migrations-'));
  cleanups.push(() => rm(folder, { recursive: true }));
  for (const name of await readdir(own)) if (name < '0058') await copyFile(join(own, name), join(folder, name));
  await migrate(opened.url, { folder });
  return opened;
}

async function register(db: Parameters<typeof registerReplica>[0]) {
  const startedAt = now(systemClock);
  const { replica_id } = await registerReplica(db, {
    replica_id: newReplicaId(systemClock),
    host: 'h',
    pid: 1,
    address: 'http://replica',
    version: packageVersion(),
    started_at: startedAt,
    lease_until: secondsLater(startedAt, 3600),
  });
  return replica_id;
}

test('reports ready without migrations on the present schema', async () => {
  const { url } = await open();
  expect(await check(url)).toMatchObject({
    schema: { database: knownSchema, program: knownSchema },
    verdict: 'ready',
    migrations: [],
    findings: [],
  });
});

test('reports that an upgrade of the first release cannot be undone, and changes nothing', async () => {
  const { url, db } = await openFirstRelease();
  const before = await dumpSchema(db);
  const report = await check(url);
  expect(report).toMatchObject({
    schema: { database: 57, program: knownSchema },
    verdict: 'attention',
    rollback: { possible: false, releases: [] },
    findings: [{ code: 'no_rollback', because: 'before_window', migrations: [] }],
  });
  expect(report.migrations[0]).toMatchObject({
    name: '0058-evidence-eras.sql',
    step: 'expand',
    effects: [{ table: 'evidence', blocks: 'everything', work: 'catalog', seconds: 0 }],
  });
  expect(report.migrations.at(-1)?.name).toMatch(/-size-samples\.sql$/);
  expect(await dumpSchema(db)).toBe(before);
});

test('an expand step can be undone beside a running replica', async () => {
  const { url, db } = await open();
  const replica_id = await register(db);
  expect(await checkNext(url, expandStep)).toMatchObject({
    verdict: 'ready',
    migrations: [{ name: nextName, step: 'expand' }],
    rollback: { possible: true },
    replicas: [{ replica_id, version: packageVersion(), knows: knownSchema }],
  });
});

test('a contract step is refused beside a replica that it would break, and cannot be undone', async () => {
  const { url, db } = await open();
  const alone = await checkNext(url, contractStep);
  const noRollback = { code: 'no_rollback', because: 'contract', migrations: [nextName] };
  expect(alone).toMatchObject({ verdict: 'attention', findings: [noRollback], rollback: { possible: false } });
  const replica_id = await register(db);
  expect(await checkNext(url, contractStep)).toMatchObject({
    verdict: 'refused',
    findings: [{ code: 'replicas_too_old', needs: knownSchema + 1, replica_ids: [replica_id] }, noRollback],
  });
});

test('a schema beyond the window is refused, and one within it is not', async () => {
  const { url, db } = await open();
  await migrateAsNext(url, expandStep);
  expect(await check(url)).toMatchObject({ verdict: 'ready', schema: { database: 9000, program: knownSchema } });
  await db.query('update schema_migrations set runs_from = $1 where version = 9000', [knownSchema + 1]);
  expect(await check(url)).toMatchObject({
    verdict: 'refused',
    findings: [{ code: 'schema_too_new', needs: knownSchema + 1 }],
  });
});

test('reports the lock, the duration and the disk need of a rewrite', async () => {
  const { url, db } = await open();
  await db.query(
    'create table filler as select md5(n::text) as text, md5(n::text) as more from generate_series(1, 1200000) n',
  );
  const rewrite: MigrationStep = {
    step: 'expand',
    effects: [{ table: 'filler', blocks: 'everything', work: 'rewrite' }],
  };
  const report = await checkNext(url, rewrite, { free_bytes: 1000 });
  const { bytes = 0, seconds = 0 } = report.migrations[0]?.effects[0] ?? {};
  expect(bytes).toBeGreaterThan(100_000_000);
  expect(seconds).toBe(bytes / 20_000_000);
  expect(report.findings).toEqual([
    { code: 'blocks_long', migration: nextName, table: 'filler', blocks: 'everything', seconds },
    { code: 'disk_short', needed_bytes: bytes, free_bytes: 1000 },
  ]);
  const elsewhere = await checkNext(url, rewrite, { free_bytes: null });
  expect(elsewhere.findings.at(-1)).toEqual({ code: 'disk_unknown', needed_bytes: bytes });
});

test('counts agents by version, and reports those more than two MINORs old', async () => {
  const { url, db } = await open();
  await db.query(`
    insert into pools (name, driver, generation, created_at, updated_at) values ('p', 'external', 1, now(), now());
    insert into pool_generations (pool, generation, document, created_at) values ('p', 1, '{}', now())`);
  const agents = ['slipway-agent/0.3.9', 'slipway-agent/0.4.0', 'slipway-agent/0.3.9', null];
  for (const [n, agent] of agents.entries()) {
    await db.query(
      `insert into nodes (node_id, pool, pool_generation, name, status, status_since, created_at, node_instance_id)
       values ($1, 'p', 1, $1, 'ready', now(), now(), $2)`,
      [`n${n}`, `i${n}`],
    );
    await db.query(
      `insert into instances (node_instance_id, node_id, attempt, created_at, agent_version) values ($1, $2, 1, now(), $3)`,
      [`i${n}`, `n${n}`, agent],
    );
  }
  expect(await check(url, { version: '0.6.0' })).toMatchObject({
    verdict: 'attention',
    agents: [
      { version: '0.3.9', nodes: 2, supported: false },
      { version: '0.4.0', nodes: 1, supported: true },
      { version: null, nodes: 1, supported: true },
    ],
    findings: [{ code: 'agents_too_old', nodes: 2 }],
  });
});
