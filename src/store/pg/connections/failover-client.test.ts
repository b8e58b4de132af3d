/** Tests a URL with several servers on a real primary with a streaming standby. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { type PairedServer, type PostgresPair, postgresPair } from '../../../../test/support/postgres-pair.ts';
import { until } from '../../../../test/support/until.ts';
import { systemClock } from '../../../base/clock.ts';
import { type Database, openDatabase, StoreUnavailable, single } from '../database.ts';
import { FailoverClient } from './failover-client.ts';
import { watchStore } from './store-watch.ts';

/** Far below the time after which TCP gives up a lost connection. */
const maxSeconds = 15;

function open(url: string): Database {
  const watch = watchStore({ clock: systemClock });
  const db = openDatabase({ url, watch, max_connections: 4 });
  onTestFinished(async () => {
    watch.stop();
    await db.close();
  });
  return db;
}

const readPort = async (db: Database) =>
  single(await db.query<{ port: number }>(`select current_setting('port')::int as port`)).port;
/**
 * Writes in a transaction: unlike the connection of a single statement, its connection returns to
 * the pool after an error.
 */
const write = (db: Database) => db.transaction((tx) => tx.query('insert into written default values'));

const createTable = ({ primary }: PostgresPair) => primary.query('create table written ()');

/** Retries statements that fail because the store is away, as callers do. */
const waitForWrite = (db: Database) =>
  until(
    'a write to succeed',
    () =>
      write(db).then(
        () => true,
        (error: unknown) => {
          if (error instanceof StoreUnavailable) return false;
          throw error;
        },
      ),
    { seconds: maxSeconds },
  );

/** Forwards new connections to one server. */
async function openAddress(first: PairedServer) {
  let current = first;
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect({ host: '127.0.0.1', port: Number(new URL(current.url).port) });
    for (const [from, into] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => {});
      from.on('close', () => into.destroy());
      from.pipe(into);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    port: (server.address() as AddressInfo).port,
    moveTo(next: PairedServer) {
      current = next;
    },
  };
}

test('connects to the primary wherever it is listed, and to the standby once it is promoted', async () => {
  const pair = await postgresPair();
  await createTable(pair);
  const { primary, standby } = pair;
  const swapped = pair.url.replace(`${primary.address},${standby.address}`, `${standby.address},${primary.address}`);
  for (const url of [pair.url, swapped, `${pair.url}?target_session_attrs=primary`]) {
    const db = open(url);
    await write(db);
    expect(`127.0.0.1:${await readPort(db)}`).toBe(primary.address);
  }
  const db = open(pair.url);
  await Promise.all([write(db), write(db), write(db)]);
  await primary.kill();
  await expect(write(db)).rejects.toBeInstanceOf(StoreUnavailable);
  await standby.promote();
  await waitForWrite(db);
  const dedicated = await db.connect('a dedicated connection');
  onTestFinished(() => dedicated.end());
  expect(`127.0.0.1:${dedicated.port}`).toBe(standby.address);
});

test('leaves a primary that no longer answers, with statements under way', async () => {
  const pair = await postgresPair();
  await createTable(pair);
  const db = open(pair.url);
  await Promise.all([write(db), write(db), write(db)]);
  const listener = await db.connect('idle');
  let ended = false;
  listener.on('end', () => {
    ended = true;
  });
  await pair.primary.freeze();
  const lost = Promise.allSettled([write(db), write(db)]);
  await pair.standby.promote();
  await waitForWrite(db);
  for (const { status } of await lost) expect(status).toBe('rejected');
  await until('a connection that only listens to end too', () => ended, { seconds: maxSeconds });
});

test('breaks a connection whose server refuses writes, and names what is wrong with each server', async () => {
  const pair = await postgresPair();
  await createTable(pair);
  const db = open(`${pair.url}?target_session_attrs=read-write`);
  await write(db);
  await pair.primary.query('alter system set default_transaction_read_only = on');
  await pair.primary.query('select pg_reload_conf()');
  await until('a write to be refused', () =>
    write(db).then(
      () => false,
      (error: unknown) => error instanceof StoreUnavailable,
    ),
  );
  const { primary, standby } = pair;
  await expect(write(db)).rejects.toThrow(
    `no read-write server: ${primary.address} is read-only, ${standby.address} is a standby`,
  );
  await standby.promote();
  await waitForWrite(db);
  expect(`127.0.0.1:${await readPort(db)}`).toBe(standby.address);
});

test('leaves a read-only server behind an address that has moved to another server', async () => {
  const pair = await postgresPair();
  await createTable(pair);
  const { primary, standby } = pair;
  const address = await openAddress(primary);
  const url = new URL(primary.url);
  url.host = `127.0.0.1:${address.port}`;
  const db = open(url.href);
  await write(db);
  // Connections that are open keep their server, as behind a virtual IP.
  await primary.query('alter system set default_transaction_read_only = on');
  await primary.query('select pg_reload_conf()');
  await standby.promote();
  address.moveTo(standby);
  await waitForWrite(db);
  expect(`127.0.0.1:${await readPort(db)}`).toBe(standby.address);
});

test('reports a wrong password as such, not as a server that is away', async () => {
  const { url } = await postgresPair();
  const db = open(url.replace(/:[^:@]+@/, ':wrong@'));
  await expect(db.query('select 1')).rejects.toThrow('password authentication failed');
});

test('a connection that is dropped during its search fails, and does not end the process', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const client = new FailoverClient({
    connectionString: `postgres://127.0.0.1:${port}/nothing?target_session_attrs=primary`,
  });
  client.on('error', () => {});
  const probe = once(server, 'connection');
  const outcome = client.connect().catch((error: unknown) => error);
  const [socket] = (await probe) as [Socket];
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  const closed = new Promise((resolve) => stream.once('close', resolve));
  stream.destroy(new Error('lost reply'));
  await closed;
  socket.destroy();
  expect(await outcome).toMatchObject({ code: 'ECONNREFUSED' });
});
