/** PgBouncer in front of PostgreSQL: session mode works, other modes are refused at startup. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { migrate } from '../../src/store/migrate.ts';
import { allocate, declarePool, waitForStatus } from '../support/allocations.ts';
import { emptyDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { spawnServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { withOutsider } from './support/outsider.ts';

type PoolMode = 'session' | 'transaction' | 'statement';
const migrationLock = 7_213_001;

async function canConnect(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.query('select 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}

withOutsider('pgbouncer', ({ place }) => {
  /** Returns the URL of an empty database behind PgBouncer, and its URL without PgBouncer. */
  async function startPgbouncer(mode: PoolMode, settings: string[] = []) {
    const database = await emptyDatabase();
    onTestFinished(() => database.drop());
    const directory = await mkdtemp(join(tmpdir(), 'slipway-pgbouncer-'));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    await chmod(directory, 0o755);
    const { username, password, port, pathname } = new URL(database.url);
    const listenPort = await freePort();
    const name = pathname.slice(1);
    await writeFile(join(directory, 'users.txt'), `"${username}" "${password}"\n`);
    await writeFile(
      join(directory, 'pgbouncer.ini'),
      [
        '[databases]',
        `${name} = host=127.0.0.1 port=${port} dbname=${name}`,
        '[pgbouncer]',
        'listen_addr = 127.0.0.1',
        `listen_port = ${listenPort}`,
        'unix_socket_dir =',
        'auth_type = scram-sha-256',
        `auth_file = ${join(directory, 'users.txt')}`,
        `pool_mode = ${mode}`,
        'default_pool_size = 60',
        ...settings,
        '',
      ].join('\n'),
    );
    const program = join(place, 'usr/sbin/pgbouncer');
    // PgBouncer refuses to run as root.
    const isRoot = process.getuid?.() === 0;
    const child = spawn(program, [join(directory, 'pgbouncer.ini')], {
      env: { ...process.env, LD_LIBRARY_PATH: join(place, 'usr/lib/x86_64-linux-gnu') },
      stdio: 'ignore',
      ...(isRoot && { uid: 65_534, gid: 65_534 }),
    });
    onTestFinished(async () => {
      if (child.exitCode !== null) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    });
    const url = `postgres://${username}:${password}@127.0.0.1:${listenPort}/${name}`;
    await until('PgBouncer to accept connections', () => canConnect(url), { seconds: 20 });
    return { url, direct: database.url };
  }

  it('in session mode: the server starts and provisions a machine', async () => {
    const { url } = await startPgbouncer('session');
    const server = await spawnServer({ database_url: url });
    try {
      await declarePool(server.client, 'pool');
      await waitForStatus(server.client, await allocate(server.client, 'pool'), 'active');
    } finally {
      await server.stop();
    }
  });

  it('a migration leaves no lock behind in a session that the pooler does not reset', async () => {
    const { url, direct } = await startPgbouncer('session', ['server_reset_query =']);
    await migrate(url);
    const client = new Client({ connectionString: direct });
    await client.connect();
    const { rows } = await client.query(
      `select objid from pg_locks
       where locktype = 'advisory'
         and objid = ${migrationLock}
         and database = (select oid from pg_database where datname = current_database())`,
    );
    await client.end();
    expect(rows).toEqual([]);
  });

  it.each([
    ['transaction', 'pool_mode = transaction', []],
    ['transaction', 'pool_mode = transaction', ['server_round_robin = 1']],
    ['statement', 'pool_mode = statement', []],
  ] as const)('in %s mode: the start is refused (%s, %j)', async (mode, message, settings) => {
    const { url, direct } = await startPgbouncer(mode, [...settings]);
    const start = spawnServer({ database_url: url });
    await expect(start).rejects.toThrow(message);
    await expect(start).rejects.toThrow('pool_mode = session');
    const client = new Client({ connectionString: direct });
    await client.connect();
    const { rows } = await client.query(`select to_regclass('schema_migrations') as migrated`);
    await client.end();
    expect(rows, 'nothing was migrated').toEqual([{ migrated: null }]);
  });
});
