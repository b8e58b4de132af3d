/**
 * `--owner-database-url`: on an external PostgreSQL, the server's role may append evidence but not
 * change or delete it.
 */
import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { emptyDatabase, execute, type TestDatabase } from '../../support/database.ts';
import { inProcessServer, type TestServer } from '../../support/server.ts';
import { until } from '../../support/until.ts';

/** Created with the right to log in only; the server grants the rest. */
const role = `server_${randomBytes(6).toString('hex')}`;
const password = randomBytes(12).toString('hex');

let database: TestDatabase;
let server: TestServer;
let asServer: Client;

const urlAsRole = (url: string) => {
  const address = new URL(url);
  address.username = role;
  address.password = password;
  return address.href;
};

beforeAll(async () => {
  database = await emptyDatabase();
  await execute(database.url, `create role ${role} login password '${password}'`);
  const application = urlAsRole(database.url);
  server = await inProcessServer({ database_url: application, args: ['--owner-database-url', database.url] });
  asServer = new Client({ connectionString: application });
  await asServer.connect();
  await server.client.call('pool-put', {
    params: { pool: 'outside' },
    body: { name: 'outside', driver: 'external' },
  });
});
afterAll(async () => {
  await asServer.end();
  await server.stop();
  await database.drop();
  await execute(database.url, `drop role ${role}`);
});

describe('a server whose role does not own the tables', () => {
  it('starts from an empty database and serves requests', async () => {
    const { node } = await server.client.call('node-create', { body: { pool: 'outside' } });
    const timeline = () => server.client.call('node-timeline', { params: { id: node.node_id } });
    await until('evidence about the node', async () => (await timeline()).items.length > 0);
    const { rows } = await asServer.query(`select tableowner from pg_tables where tablename = 'evidence'`);
    expect(rows[0]?.tableowner).not.toBe(role);
    // The settings show neither password.
    const settings = JSON.stringify(await server.client.call('settings-get', {}));
    expect(settings).not.toContain(password);
    expect(settings).not.toContain(new URL(database.url).password);
  });

  it.for([
    `update evidence set summary = 'nothing happened'`,
    'delete from evidence',
    'truncate evidence',
    'drop table evidence',
    `update evidence_node set summary = 'nothing happened'`,
    'delete from evidence_cuts',
    'delete from schema_migrations',
    'alter table evidence disable trigger all',
    `select evidence_cut('evidence_node')`,
    'create table public.mine (id integer)',
    'set role postgres',
  ])('may not run: %s', async (statement) => {
    await expect(asServer.query(statement)).rejects.toThrow();
  });
});

it('refuses to start when the two URLs name different databases', async () => {
  const otherDatabase = await emptyDatabase();
  try {
    const args = ['--owner-database-url', otherDatabase.url];
    await expect(inProcessServer({ database_url: urlAsRole(database.url), args })).rejects.toThrow(
      /are different databases/,
    );
  } finally {
    await otherDatabase.drop();
  }
});
