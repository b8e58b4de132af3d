/**
 * One reader per replica, woken by commits on any replica. Two database handles stand for two
 * replicas.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../../test/support/database.ts';
import { until } from '../../../test/support/until.ts';
import { type Clock, systemClock } from '../../base/clock.ts';
import { type VirtualClock, virtualClock } from '../../base/virtual-clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { type Database, openDatabase } from '../pg/database.ts';
import { recordEvidence, recordOutsideFacts } from './evidence.ts';
import { type EvidenceTail, startTail } from './tail.ts';

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
  const heard: string[] = [];
  const end = tail.subscribe((fact: Evidence) => heard.push(fact.summary));
  return { tail, heard, errors, end };
}

const at = new Date(Date.UTC(2026, 0, 1));
const record = (db: Database, summary: string) =>
  recordEvidence(db, [{ at, layer: 'api', kind: 'node.explained', summary }]);

/** Advances too little for the fallback poll, but enough for the retries of withheld facts. */
const soon = (clock: VirtualClock, what: string, isDone: () => boolean) =>
  until(
    what,
    async () => {
      await clock.advance(1);
      return isDone();
    },
    { every_ms: 5 },
  );

const listeners = async () =>
  here.query<{ pid: number }>(
    `select pid from pg_stat_activity where datname = current_database() and application_name = 'slipway tail'`,
  );

test('both replicas get all facts once, in one order, without waiting for the poll', async () => {
  const clock = virtualClock();
  const started = clock.nowMs();
  const reader = await follow(here, clock);
  const writer = await follow(there, systemClock);
  for (let i = 0; i < 20; i++) await record(i % 2 ? there : here, `fact ${i}`);
  const all = Array.from({ length: 20 }, (_, i) => `fact ${i}`);
  await soon(clock, 'all facts on the one side', () => reader.heard.length >= all.length);
  await until('all facts on the other', () => writer.heard.length >= all.length);
  expect(reader.heard).toEqual(all);
  expect(writer.heard).toEqual(all);
  expect(clock.nowMs() - started).toBeLessThan(1000);
  expect([...reader.errors, ...writer.errors]).toEqual([]);
});

test('never delivers a fact of a rolled-back transaction', async () => {
  const { heard } = await follow(here, systemClock);
  await expect(
    here.transaction(async (tx) => {
      await recordEvidence(tx, [{ at, layer: 'api', kind: 'node.explained', summary: 'never' }]);
      throw new Error('no');
    }),
  ).rejects.toThrow('no');
  await record(here, 'after');
  await until('the fact after', () => heard.length > 0);
  expect(heard).toEqual(['after']);
});

test('polls while its connection is lost, and is woken again after reconnecting', async () => {
  const clock = virtualClock();
  const born = clock.nowMs();
  const reader = await follow(here, clock);
  await follow(there, systemClock);
  const before = await listeners();
  expect(before.length).toBe(2);
  await here.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'slipway tail'`);
  await until('both connections to be gone', async () =>
    (await listeners()).every(({ pid }) => !before.some((old) => old.pid === pid)),
  );
  await record(there, 'meanwhile');
  await until('the poll to find it', async () => {
    await clock.advance(250);
    return reader.heard.includes('meanwhile');
  });
  await until('both connections to be back', async () => {
    await clock.advance(250);
    return (await listeners()).length === 2;
  });
  // Right after a poll: only a notification can deliver this fact before the next poll.
  await clock.advance(1000 - ((clock.nowMs() - born) % 1000));
  const started = clock.nowMs();
  await record(there, 'woken');
  await soon(clock, 'the wake', () => reader.heard.includes('woken'));
  expect(clock.nowMs() - started).toBeLessThan(1000);
  expect(reader.heard).toEqual(['meanwhile', 'woken']);
});

test('opens one connection at a time while the store is away', async () => {
  const clock = virtualClock();
  let connecting = 0;
  let letGo = () => {};
  const slow = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const sluggish: Database = {
    ...here,
    connect: async (name) => {
      if (connecting++ > 0) await slow;
      return here.connect(name);
    },
  };
  await follow(sluggish, clock);
  await here.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'slipway tail'`);
  await until('the loss to be noticed', async () => {
    await clock.advance(1000);
    return connecting > 1;
  });
  for (let i = 0; i < 5; i++) await clock.advance(1000);
  letGo();
  await until('the connection to be back', async () => (await listeners()).length > 0);
  expect(connecting).toBe(2);
});

test('a listener that throws does not affect the others', async () => {
  const { tail, heard, errors } = await follow(here, systemClock);
  const others: string[] = [];
  tail.subscribe(() => {
    throw new Error('this listener is broken');
  });
  tail.subscribe((fact) => others.push(fact.summary));
  await record(here, 'one');
  await record(here, 'two');
  await until('both facts', () => others.length >= 2);
  expect(others).toEqual(['one', 'two']);
  expect(heard).toEqual(['one', 'two']);
  expect(errors.length).toBe(2);
});

test('delivers nothing from before the subscription, nor after its end', async () => {
  await record(here, 'before');
  await until('it to be settled', async () => {
    const [row] = await here.query<{ open: number }>(
      'select count(*)::int as open from evidence where xid >= pg_snapshot_xmin(pg_current_snapshot())',
    );
    return row?.open === 0;
  });
  const { tail, heard, end } = await follow(here, systemClock);
  const other: string[] = [];
  tail.subscribe((fact) => other.push(fact.summary));
  await record(here, 'now');
  await until('the fact', () => heard.length > 0);
  end();
  await record(here, 'later');
  await until('the other to hear it', () => other.length > 1);
  expect(heard).toEqual(['now']);
  await tail.stop();
  await until('its connection to be gone', async () => (await listeners()).length === 0);
});

test('delivers facts from outside only to subscribers of all facts', async () => {
  const clock = virtualClock();
  const { tail, heard } = await follow(here, clock);
  const shown: string[] = [];
  tail.subscribeAll(({ summary, origin }) => shown.push(`${summary} (${origin})`));
  await recordOutsideFacts(here, 'person', [{ at, layer: 'api', kind: 'deploy.done', summary: 'from outside' }]);
  await record(here, 'our own');
  await soon(clock, 'both to be shown', () => shown.length === 2);
  expect(shown).toEqual(['from outside (person)', 'our own (internal)']);
  expect(heard).toEqual(['our own']);
});
