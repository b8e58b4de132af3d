/** The tail is woken by commits on any replica. Two database handles represent two replicas. */
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../../test/support/database.ts';
import { until } from '../../../test/support/until.ts';
import { type Clock, systemClock } from '../../base/clock.ts';
import { type VirtualClock, virtualClock } from '../../base/virtual-clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { type Database, openDatabase } from '../pg/database.ts';
import { isSettledSql } from './commit-order.ts';
import { recordEvidence, recordOutsideFacts } from './evidence.ts';
import { type EvidenceTail, type HistoryChange, startTail } from './tail.ts';

let database: TestDatabase;
let here: Database;
let there: Database;
const tails: EvidenceTail[] = [];

beforeAll(async () => {
  database = await testDatabase();
  here = openDatabase({ url: database.url });
  there = openDatabase({ url: database.url });
});

afterEach(async () => {
  for (const tail of tails.splice(0)) await tail.stop();
});

afterAll(async () => {
  await here.close();
  await there.close();
  await database.drop();
});

async function follow(db: Database, clock: Clock) {
  const errors: unknown[] = [];
  const tail = await startTail({ db, clock, onError: (error) => errors.push(error) });
  tails.push(tail);
  db.whenEvidence(() => tail.nudge());
  const received: string[] = [];
  const end = tail.subscribe((fact: Evidence) => received.push(fact.summary));
  return { tail, received, errors, end };
}

const at = new Date(Date.UTC(2026, 0, 1));
const record = (db: Database, summary: string) =>
  recordEvidence(db, [{ at, layer: 'api', kind: 'node.explained', summary }]);

/** Waits while the clock advances enough for retries of withheld facts, but not for a poll. */
const untilSoon = (clock: VirtualClock, goal: string, isDone: () => boolean) =>
  until(
    goal,
    async () => {
      await clock.advance(1);
      return isDone();
    },
    { every_ms: 5 },
  );

const listenConnections = async () =>
  here.query<{ pid: number }>(
    `select pid from pg_stat_activity where datname = current_database() and application_name = 'slipway tail'`,
  );

test('two replicas receive every fact once, in the same order, before the next poll', async () => {
  const clock = virtualClock();
  const started = clock.nowMs();
  const reader = await follow(here, clock);
  const writer = await follow(there, systemClock);
  for (let i = 0; i < 20; i++) await record(i % 2 ? there : here, `fact ${i}`);
  const all = Array.from({ length: 20 }, (_, i) => `fact ${i}`);
  await untilSoon(clock, 'all facts at the reader', () => reader.received.length >= all.length);
  await until('all facts at the writer', () => writer.received.length >= all.length);
  expect(reader.received).toEqual(all);
  expect(writer.received).toEqual(all);
  expect(clock.nowMs() - started).toBeLessThan(1000);
  expect([...reader.errors, ...writer.errors]).toEqual([]);
});

test('never delivers a fact of a rolled-back transaction', async () => {
  const { received } = await follow(here, systemClock);
  await expect(
    here.transaction(async (tx) => {
      await recordEvidence(tx, [{ at, layer: 'api', kind: 'node.explained', summary: 'never' }]);
      throw new Error('no');
    }),
  ).rejects.toThrow('no');
  await record(here, 'after');
  await until('the fact after', () => received.length > 0);
  expect(received).toEqual(['after']);
});

test('polls while its connection is lost, and is woken by NOTIFY again after reconnecting', async () => {
  const clock = virtualClock();
  const tailStarted = clock.nowMs();
  const reader = await follow(here, clock);
  await follow(there, systemClock);
  const before = await listenConnections();
  expect(before.length).toBe(2);
  await here.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'slipway tail'`);
  await until('both connections to be gone', async () =>
    (await listenConnections()).every(({ pid }) => !before.some((old) => old.pid === pid)),
  );
  await record(there, 'meanwhile');
  await until('the poll to find the fact', async () => {
    await clock.advance(250);
    return reader.received.includes('meanwhile');
  });
  await until('both connections to be back', async () => {
    await clock.advance(250);
    return (await listenConnections()).length === 2;
  });
  // Record right after a poll, so that only a notification can deliver the fact before the next
  // one.
  await clock.advance(1000 - ((clock.nowMs() - tailStarted) % 1000));
  const started = clock.nowMs();
  await record(there, 'woken');
  await untilSoon(clock, 'the notification', () => reader.received.includes('woken'));
  expect(clock.nowMs() - started).toBeLessThan(1000);
  expect(reader.received).toEqual(['meanwhile', 'woken']);
});

test('opens only one connection at a time while connecting is slow', async () => {
  const clock = virtualClock();
  let connecting = 0;
  let unblock = () => {};
  const blocked = new Promise<void>((resolve) => {
    unblock = resolve;
  });
  const slowDatabase: Database = {
    ...here,
    connect: async (name) => {
      if (connecting++ > 0) await blocked;
      return here.connect(name);
    },
  };
  await follow(slowDatabase, clock);
  await here.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'slipway tail'`);
  await until('the loss to be noticed', async () => {
    await clock.advance(1000);
    return connecting > 1;
  });
  for (let i = 0; i < 5; i++) await clock.advance(1000);
  unblock();
  await until('the connection to be back', async () => (await listenConnections()).length > 0);
  expect(connecting).toBe(2);
});

test('reports the error of a listener, and still calls the other listeners', async () => {
  const { tail, received, errors } = await follow(here, systemClock);
  const otherReceived: string[] = [];
  tail.subscribe(() => {
    throw new Error('this listener is broken');
  });
  tail.subscribe((fact) => otherReceived.push(fact.summary));
  await record(here, 'one');
  await record(here, 'two');
  await until('both facts', () => otherReceived.length >= 2);
  expect(otherReceived).toEqual(['one', 'two']);
  expect(received).toEqual(['one', 'two']);
  expect(errors.length).toBe(2);
});

test('delivers no fact from before the subscription or after its end', async () => {
  await record(here, 'before');
  await until('the fact to be settled', async () => {
    const [row] = await here.query<{ open: number }>(
      `select count(*)::int as open from evidence where not (${isSettledSql})`,
    );
    return row?.open === 0;
  });
  const { tail, received, end } = await follow(here, systemClock);
  const other: string[] = [];
  tail.subscribe((fact) => other.push(fact.summary));
  await record(here, 'now');
  await until('the fact', () => received.length > 0);
  end();
  await record(here, 'later');
  await until('the other listener to receive it', () => other.length > 1);
  expect(received).toEqual(['now']);
  await tail.stop();
  await until('the connection of the tail to be gone', async () => (await listenConnections()).length === 0);
});

test('delivers facts from outside only to subscribers of all facts', async () => {
  const clock = virtualClock();
  const { tail, received } = await follow(here, clock);
  const all: string[] = [];
  tail.subscribeAll(({ summary, origin }) => all.push(`${summary} (${origin})`));
  await recordOutsideFacts(here, 'person', [{ at, layer: 'api', kind: 'deploy.done', summary: 'from outside' }]);
  await record(here, 'our own');
  await untilSoon(clock, 'both facts', () => all.length === 2);
  expect(all).toEqual(['from outside (person)', 'our own (internal)']);
  expect(received).toEqual(['our own']);
});

test('reports its lag while an older transaction withholds a fact, and none afterwards', async () => {
  const clock = virtualClock();
  const { tail, received } = await follow(here, clock);
  await here.transaction(async (older) => {
    await older.query('select pg_current_xact_id()');
    await record(there, 'withheld');
    await until('the lag to grow', async () => {
      await clock.advance(250);
      return tail.lagMs() > 5_000;
    });
    expect(received).toEqual([]);
  });
  await until('the fact to arrive', async () => {
    await clock.advance(250);
    return received.length > 0 && tail.lagMs() <= 1_250;
  });
});

async function reconnect(): Promise<void> {
  const before = await listenConnections();
  await here.query('select pg_terminate_backend(pid) from unnest($1::int[]) as pid', [before.map(({ pid }) => pid)]);
  await until('the connection to be back', async () =>
    (await listenConnections()).some(({ pid }) => !before.some((old) => old.pid === pid)),
  );
}

test.for([
  { name: 'the last fact', lost: ['two'], isLost: true },
  { name: 'an earlier fact, whose transaction committed later', lost: ['one'], isLost: true },
  { name: 'no fact', lost: [], isLost: false },
])('after a reconnect to a database that lost $name, reports a loss: $isLost', async ({ lost, isLost }) => {
  const { tail, received } = await follow(here, systemClock);
  const changes: HistoryChange[] = [];
  tail.whenHistoryChanged((change) => changes.push(change));
  await record(here, 'one');
  await record(here, 'two');
  await until('both facts', () => received.length === 2);
  const last_read = tail.position();
  await here.query('delete from evidence where summary = any($1)', [lost]);
  await reconnect();
  await record(here, 'after');
  await until('the fact after the reconnect', () => received.includes('after'));
  expect(changes.map((change) => ({ lost: change.lost, last_read: change.last_read }))).toEqual(
    isLost ? [{ lost: true, last_read }] : [],
  );
  expect(received).toEqual(['one', 'two', 'after']);
  await here.query(`delete from evidence where summary in ('one', 'two')`);
});

/** Replaces a function without arguments until the test ends. */
async function replaceFunction(name: string, returns: string): Promise<void> {
  const [former] = await here.query<{ text: string }>('select pg_get_functiondef($1::regproc) as text', [name]);
  onTestFinished(async () => void (await here.query(former?.text ?? '')));
  await here.query(`create or replace function ${name}() returns ${returns}`);
}

test.for([
  { name: 'in an earlier era', era: 4, cluster: 'one', isLost: true },
  { name: 'in another cluster', era: 5, cluster: 'other', isLost: true },
  { name: 'as before', era: 5, cluster: 'one', isLost: false },
])('after a reconnect to a database $name, asks for a new start: $isLost', async ({ era, cluster, isLost }) => {
  const setEra = (value: number) =>
    replaceFunction('evidence_era', `bigint language sql immutable parallel safe as 'select ${value}::bigint'`);
  const setCluster = (value: string) =>
    replaceFunction('evidence_cluster', `text language plpgsql as $$ begin return '${value}'; end $$`);
  await setEra(5);
  await setCluster('one');
  const { tail, received } = await follow(here, systemClock);
  let lost: Error | undefined;
  void tail.lost.then((error) => {
    lost = error;
  });
  await setEra(era);
  await setCluster(cluster);
  await reconnect();
  if (isLost) {
    await until('the loss', () => lost !== undefined);
    expect(lost?.message).toContain('a new start is needed');
    return;
  }
  await record(here, 'in era 5');
  await until('the fact', () => received.length > 0);
  expect(lost).toBe(undefined);
  await here.query(`delete from evidence where summary = 'in era 5'`);
});

test('reports no loss if only facts that were read more than a day ago are missing after a reconnect', async () => {
  let laterMs = 0;
  const clock: Clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + laterMs };
  const { tail, received } = await follow(here, clock);
  const changes: HistoryChange[] = [];
  tail.whenHistoryChanged((change) => changes.push(change));
  await record(here, 'old');
  await until('the old fact', () => received.length === 1);
  laterMs = 25 * 3600_000;
  await here.query(`delete from evidence where summary = 'old'`);
  await reconnect();
  await record(here, 'after a day');
  await until('the fact after the reconnect', () => received.includes('after a day'));
  expect(changes).toEqual([]);
  expect(received).toEqual(['old', 'after a day']);
});
