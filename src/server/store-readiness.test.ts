/** Tests the public answer and the log lines of the readiness check, on real PostgreSQL servers. */
import { expect, onTestFinished, test } from 'vitest';
import { testDatabase } from '../../test/support/database.ts';
import { type PairedServer, postgresPair } from '../../test/support/postgres-pair.ts';
import { until } from '../../test/support/until.ts';
import { systemClock } from '../base/clock.ts';
import type { ReplicaId } from '../base/ids.ts';
import { virtualClock } from '../base/virtual-clock.ts';
import { migrate } from '../store/migrate.ts';
import { testWrite } from '../store/operations/write-test.ts';
import { watchStore } from '../store/pg/connections/store-watch.ts';
import { openDatabase } from '../store/pg/database.ts';
import { createReadinessCheck } from './store-readiness.ts';

test('answers a refused connection with unavailable and no address, and logs it at most every 10 s', async () => {
  const clock = virtualClock();
  const watch = watchStore({ clock });
  const db = openDatabase({ url: 'postgres://somebody@127.0.0.1:1/nothing', watch });
  onTestFinished(async () => {
    watch.stop();
    await db.close();
  });
  const logged: string[] = [];
  const warn = ({ error }: { error: Error }) => void logged.push(error.message);
  const { check } = createReadinessCheck({ db, watch, clock, testWrite: async () => {} }, { warn } as never);
  const unavailable = { ok: false, state: 'unavailable', detail: 'connection failed' };
  expect(await check()).toEqual(unavailable);
  expect(await check()).toEqual(unavailable);
  expect(logged).toEqual([expect.stringContaining('127.0.0.1:1')]);
  await clock.advance(10_000);
  expect(await check()).toEqual(unavailable);
  expect(logged).toHaveLength(2);
});

function openCheck(url: string) {
  const watch = watchStore({ clock: systemClock });
  const db = openDatabase({ url, watch });
  let writeTests = 0;
  onTestFinished(async () => {
    watch.stop();
    await db.close();
  });
  const countedTestWrite = (onBegin: () => void) => {
    writeTests++;
    return testWrite(db, 'rep_test' as ReplicaId, onBegin);
  };
  const { check } = createReadinessCheck({ db, watch, clock: systemClock, testWrite: countedTestWrite }, {
    warn() {},
  } as never);
  return { db, check, writeTests: () => writeTests };
}

/** Migrates the database and inserts the row of the replica, which `testWrite` updates. */
async function prepare({ url }: { url: string }): Promise<void> {
  await migrate(url);
  const db = openDatabase({ url });
  await db.query(
    `insert into replicas (replica_id, host, pid, address, version, started_at, lease_until)
     values ('rep_test', 'host', 1, '', '1', now(), now())`,
  );
  await db.close();
}

const alter = async (server: PairedServer, setting: string) => {
  await server.query(`alter system set ${setting}`);
  await server.query('select pg_reload_conf()');
};

test('is unready while the database is read-only or a synchronous standby is missing, and says why', async () => {
  const { primary, standby } = await postgresPair();
  await prepare(primary);
  const { check } = openCheck(primary.url);
  const becomes = (state: string) =>
    until(`the state ${state}`, async () => {
      const answer = await check();
      return answer.state === state ? answer : undefined;
    });
  await becomes('ok');

  await alter(primary, 'default_transaction_read_only = on');
  expect(await becomes('read_only')).toMatchObject({ ok: false, detail: expect.stringContaining('no writes') });
  await alter(primary, 'default_transaction_read_only = off');
  await becomes('ok');

  await alter(primary, `synchronous_standby_names = 'standby'`);
  await becomes('ok');
  await standby.freeze();
  expect(await becomes('commit_waits')).toMatchObject({ ok: false, detail: expect.stringContaining('standby') });
  await standby.thaw();
  await becomes('ok');
});

test('runs one write test for 50 concurrent checks, and adds no row', async () => {
  const database = await testDatabase();
  onTestFinished(() => database.drop());
  await prepare(database);
  const { db, check, writeTests } = openCheck(database.url);
  const counts = () => db.query('select count(*)::int, (select count(*)::int from evidence) as facts from replicas');
  const before = await counts();
  const answers = await Promise.all(Array.from({ length: 50 }, () => check()));
  expect(new Set(answers.map(({ state }) => state))).toEqual(new Set(['ok']));
  await check();
  expect(writeTests()).toBe(1);
  expect(await counts()).toEqual(before);
});

test('a write test that waits for a pool connection is not reported as a waiting commit', async () => {
  const database = await testDatabase();
  const clock = virtualClock();
  const watch = watchStore({ clock: systemClock });
  const db = openDatabase({ url: database.url, watch });
  onTestFinished(async () => {
    watch.stop();
    await db.close();
    await database.drop();
  });
  let begin = () => {};
  let fail: (error: Error) => void = () => {};
  const waiting = (onBegin: () => void) => {
    begin = onBegin;
    return new Promise<void>((_, reject) => {
      fail = reject;
    });
  };
  const { check } = createReadinessCheck({ db, watch, clock, testWrite: waiting }, { warn() {} } as never);
  const stateAfter = async (seconds: number) => {
    await clock.advance(seconds * 1_000);
    let state: string | undefined;
    void check().then((answer) => {
      state = answer.state;
    });
    return until('an answer', async () => {
      await clock.advance(100);
      return state;
    });
  };
  expect(await stateAfter(0)).toBe('ok');
  expect(await stateAfter(20)).toBe('ok');
  fail(new Error('timeout exceeded when trying to connect'));
  expect(await stateAfter(3)).toBe('ok');
  begin();
  expect(await stateAfter(12)).toBe('commit_waits');
});

test('is ready if the database allows no temporary files', async () => {
  const database = await testDatabase();
  onTestFinished(() => database.drop());
  await prepare(database);
  const admin = openDatabase({ url: database.url });
  await admin.query(
    `do $$ begin execute format('alter database %I set temp_file_limit = 0', current_database()); end $$`,
  );
  await admin.close();
  const { check } = openCheck(database.url);
  expect(await check()).toMatchObject({ state: 'ok' });
  expect(await check()).toMatchObject({ state: 'ok' });
});
