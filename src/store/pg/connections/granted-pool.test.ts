/** Tests a pool whose database refuses connections, on a real PostgreSQL. */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { execute, testDatabase } from '../../../../test/support/database.ts';
import { until } from '../../../../test/support/until.ts';
import { virtualClock } from '../../../base/virtual-clock.ts';
import { FailoverClient } from './failover-client.ts';
import { GrantedPool } from './granted-pool.ts';

/** A pool of at most eight connections, on a role that may have fewer. */
async function openPool(granted: number) {
  const database = await testDatabase();
  const role = `granted_${randomBytes(6).toString('hex')}`;
  const grant = (count: number) => execute(database.url, `alter role ${role} connection limit ${count}`);
  await execute(database.url, `create role ${role} login password 'x'`);
  await grant(granted);
  const url = new URL(database.url);
  url.username = role;
  url.password = 'x';
  const clock = virtualClock();
  let attempts = 0;
  class CountedClient extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(config);
      attempts++;
    }
  }
  const pool = new GrantedPool({ connectionString: url.href, max: 8, Client: CountedClient }, clock);
  onTestFinished(async () => {
    await pool.end();
    await database.drop();
    await execute(database.url, `drop role ${role}`);
  });
  const burst = (count: number) =>
    Promise.all(Array.from({ length: count }, () => pool.query('select pg_sleep(0.02)')));
  return { pool, url, clock, grant, burst, attempts: () => attempts };
}

test('serves all statements with the granted connections, and opens more once the database allows it', async () => {
  const { pool, clock, grant, burst } = await openPool(3);
  expect(pool.isShort()).toBe(false);
  await burst(40);
  expect(pool.totalCount).toBeLessThanOrEqual(3);
  expect(pool.isShort()).toBe(true);
  await grant(8);
  await clock.advance(5_000);
  await burst(40);
  expect(pool.totalCount).toBe(8);
  expect(pool.isShort()).toBe(false);
});

test('is not short with half of its connections, or once the last refusal is 15 s old', async () => {
  const { pool, burst } = await openPool(4);
  await burst(40);
  expect(pool.totalCount).toBe(4);
  expect(pool.isShort()).toBe(false);
  const few = await openPool(1);
  await few.burst(10);
  expect(few.pool.isShort()).toBe(true);
  await few.clock.advance(15_000);
  expect(few.pool.isShort()).toBe(false);
});

test('is short while callers wait, and does not try a connection for each of them', async () => {
  const { pool, clock, burst, attempts } = await openPool(3);
  const waiting = burst(60);
  await until('a refusal while callers wait', () => pool.isShort() && pool.waitingCount > 0);
  await waiting;
  expect(attempts()).toBe(8);
  await clock.advance(5_000);
  await burst(60);
  // After the pause, connections that open at the same time are refused together.
  expect(attempts()).toBeLessThanOrEqual(16);
});

test('fails every caller if it has no connection at all', async () => {
  const { pool } = await openPool(0);
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => pool.query('select 1')));
  expect(outcomes).toHaveLength(20);
  for (const outcome of outcomes) expect(outcome).toMatchObject({ status: 'rejected', reason: { code: '53300' } });
});

test('recognizes the refusal of a server among several in the URL', async () => {
  const { url } = await openPool(0);
  const several = `postgres://${url.username}:${url.password}@${url.host},${url.host}${url.pathname}?target_session_attrs=read-write`;
  const pool = new GrantedPool({ connectionString: several, max: 8, Client: FailoverClient });
  onTestFinished(() => pool.end());
  await expect(pool.query('select 1')).rejects.toMatchObject({ cause: { code: '53300' } });
  expect(pool.isShort()).toBe(true);
});
