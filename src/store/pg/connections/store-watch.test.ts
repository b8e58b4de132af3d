/**
 * Tests a slow store, an unreachable store and lost replies with a real PostgreSQL behind a proxy
 * that drops bytes.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../../../test/support/database.ts';
import { until } from '../../../../test/support/until.ts';
import { systemClock } from '../../../base/clock.ts';
import { virtualClock } from '../../../base/virtual-clock.ts';
import { type Database, openDatabase, StoreUnavailable } from '../database.ts';
import { type StoreWatch, watchStore } from './store-watch.ts';

/** Forwards bytes, or drops them without closing connections. */
async function openProxy(to: { host: string; port: number }) {
  let drops = false;
  const sockets = new Set<Socket>();
  const pass = (from: Socket, into: Socket) => {
    sockets.add(from);
    from.on('data', (bytes) => {
      if (!drops) into.write(bytes);
    });
    from.on('error', () => {});
    from.on('close', () => {
      sockets.delete(from);
      into.destroy();
    });
  };
  const server = createServer((near) => {
    const far = connect(to);
    pass(near, far);
    pass(far, near);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    drop(enabled: boolean) {
      drops = enabled;
    },
    /** Closes all connections, like a pooler or a firewall closes idle ones. */
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    async end() {
      for (const socket of sockets) socket.destroy();
      if (!server.listening) return;
      server.close();
      await once(server, 'close');
    },
  };
}

let database: TestDatabase;
let proxy: Awaited<ReturnType<typeof openProxy>>;
let watch: StoreWatch;
let db: Database;
let url = '';
let lost = 0;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database.drop());
beforeEach(async () => {
  const address = new URL(database.url);
  address.searchParams.delete('host');
  proxy = await openProxy({ host: address.hostname, port: Number(address.port) });
  address.host = `127.0.0.1:${proxy.port}`;
  url = address.href;
  lost = 0;
  watch = watchStore({ clock: systemClock, onLost: (count) => (lost += count) });
  db = openDatabase({ url, watch });
});
afterEach(async () => {
  watch.stop();
  proxy.drop(false);
  await proxy.end();
  await db.close();
});

test('a statement with a lost reply fails once the store is back, and can be retried', async () => {
  await db.query('select 1');
  proxy.drop(true);
  const failed = db.query('select 2').then(
    () => 'answered',
    (error: unknown) => error,
  );
  await until('the store to be away', () => watch.isAway());
  const awayMs = watch.awayMs();
  expect(awayMs).toBeGreaterThan(1_000);
  let back = false;
  watch.whenBack(() => {
    back = true;
  });
  proxy.drop(false);
  expect(await failed).toBeInstanceOf(StoreUnavailable);
  expect(lost).toBeGreaterThan(0);
  expect(await db.query('select 3 as answer')).toEqual([{ answer: 3 }]);
  await until('the watch to see the store again', () => back && !watch.isAway());
  expect(watch.awayMs()).toBeGreaterThanOrEqual(awayMs);
});

test('keeps the connection of a slow statement', async () => {
  const [row] = await Promise.all([
    db.query<{ answer: number }>('select 1 as answer from pg_sleep(9)'),
    until('another statement to finish meanwhile', () => db.query('select 1')),
  ]);
  expect(row).toEqual([{ answer: 1 }]);
  expect(lost).toBe(0);
});

test('a lost idle connection does not make the store away; a refused connection does', async () => {
  const clock = virtualClock();
  const quiet = watchStore({ clock });
  let cut = 0;
  const idle = openDatabase({ url, watch: quiet, on_idle_error: () => cut++ });
  onTestFinished(async () => {
    quiet.stop();
    await idle.close();
  });
  await idle.query('select 1');
  await clock.advance(60_000);
  proxy.cut();
  await until('the connection to be lost', () => cut > 0);
  await clock.advance(60_000);
  expect(quiet.isAway()).toBe(false);
  expect(quiet.awayMs()).toBe(0);

  await proxy.end();
  await expect(idle.query('select 1')).rejects.toBeInstanceOf(StoreUnavailable);
  expect(quiet.isAway()).toBe(false);
  await clock.advance(1_500);
  expect(quiet.isAway()).toBe(true);
  expect(quiet.awayMs(), 'counted from the failure').toBeLessThan(5_000);
});

test('a closed idle connection does not make the store away during a slow statement', async () => {
  const clock = virtualClock();
  const slow = watchStore({ clock });
  let cut = 0;
  const idle = openDatabase({ url, watch: slow, on_idle_error: () => cut++ });
  const address = new URL(database.url);
  const other = await openProxy({ host: address.hostname, port: Number(address.port) });
  address.searchParams.delete('host');
  address.host = `127.0.0.1:${other.port}`;
  const busy = openDatabase({ url: address.href, watch: slow });
  onTestFinished(async () => {
    slow.stop();
    await idle.close();
    await busy.close();
    await other.end();
  });
  await Promise.all([idle.query('select 1'), busy.query('select 1')]);
  await clock.advance(1_000);
  const answer = busy.query<{ answer: number }>('select 1 as answer from pg_sleep(3)');
  proxy.cut();
  await until('the idle connection to be lost', () => cut > 0);
  await clock.advance(3_000);
  expect(slow.isAway()).toBe(false);
  expect(await answer).toEqual([{ answer: 1 }]);
});
