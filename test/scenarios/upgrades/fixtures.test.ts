/** This version opens databases that earlier versions wrote, and serves new allocations there. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { knownSchema } from '../../../src/store/upgrade/migration-steps.ts';
import { releases } from '../../../src/store/upgrade/releases.ts';
import { allocate, readAllocation, release, waitForStatus } from '../../support/allocations.ts';
import { emptyDatabase, type TestDatabase } from '../../support/database.ts';
import { contractStep, expandStep, migrateAsNext, nextVersion } from '../../support/next-version.ts';
import { type SpawnedServer, spawnProgram, spawnServer } from '../../support/server.ts';

const folder = join(import.meta.dirname, 'fixtures');
const files = await readdir(folder);
const fixtures = files.filter((name) => name.endsWith('.sql'));

let database: TestDatabase | undefined;
let server: SpawnedServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
  await database?.drop();
  database = undefined;
});

const url = () => database?.url ?? '';

async function query<R extends object>(text: string): Promise<R[]> {
  const client = new pg.Client({ connectionString: url() });
  await client.connect();
  try {
    return (await client.query(text)).rows as R[];
  } finally {
    await client.end();
  }
}

/**
 * Loads a database as its own cluster had it. There the transaction counter was ahead of every
 * fact; a counter behind them is the sign of a restore, after which servers only observe.
 */
async function load(name: string): Promise<void> {
  database = await emptyDatabase();
  await query(await readFile(join(folder, name), 'utf8'));
  await query(`
    do $$
    declare
      newest bigint := (select coalesce(max(xid::text::bigint), 0) from evidence);
    begin
      while pg_snapshot_xmax(pg_current_snapshot())::text::bigint <= newest loop
        perform pg_current_xact_id();
        commit;
      end loop;
    end $$`);
}

const schemaVersion = async () =>
  (await query<{ newest: number }>('select max(version) as newest from schema_migrations'))[0]?.newest;

/** Allocates a machine and releases it. */
async function allocateAndRelease({ client }: SpawnedServer, pool: string): Promise<void> {
  const id = await allocate(client, pool);
  await waitForStatus(client, id, 'active');
  await release(client, id);
  await waitForStatus(client, id, 'released');
}

test('each release has its database and its agent', () => {
  for (const { version } of releases)
    expect(files).toEqual(expect.arrayContaining([`${version}.sql`, `agent-${version}.mjs.gz`]));
});

describe.for(fixtures)('the database of %s', (name) => {
  test('opens with this version, which serves its rows and a new allocation', async () => {
    await load(name);
    const known = releases.find(({ version }) => name === `${version}.sql`);
    if (known) expect(await schemaVersion()).toBe(known.schema);
    const [kept] = await query<{ allocation_id: string }>('select allocation_id from allocations');
    const id = kept?.allocation_id ?? '';

    server = await spawnServer({ database_url: url() });
    expect(await schemaVersion()).toBe(knownSchema);
    expect(await readAllocation(server.client, id)).toMatchObject({
      status: 'released',
      tenant: 'default',
      pool: 'kept',
    });
    const { items } = await server.client.call('timeline-get', { query: { allocation_id: id } });
    expect(items.length).toBeGreaterThan(3);
    await allocateAndRelease(server, 'kept');
  });

  test('serves a new allocation with this version after a later version expanded the schema', async () => {
    await load(name);
    await migrateAsNext(url(), expandStep);
    server = await spawnServer({ database_url: url() });
    expect(server.output()).toContain('the schema is newer than this version');
    expect(await schemaVersion()).toBe(nextVersion);
    await allocateAndRelease(server, 'kept');
  });
});

test('a server refuses a schema that a later version has contracted, and says what to do', async () => {
  await load(fixtures[0] ?? '');
  await migrateAsNext(url(), contractStep);
  const refused = spawnProgram(['--port', '0', '--database-url', url(), '--data-dir', '/nowhere']);
  expect(await refused.ended).toBe(1);
  expect(refused.output()).toContain(`a server must know version ${knownSchema + 1}`);
  expect(refused.output()).toContain('Start the newer Slipway again, or restore a backup');
  expect(refused.output()).not.toContain('    at ');
});
