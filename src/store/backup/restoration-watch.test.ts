/** Tests that a replica follows the start and end of a restoration, also if the store is away. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import type { HistoryChange } from '../evidence/tail.ts';
import { type Database, type Queryable, StoreUnavailable } from '../pg/database.ts';
import { watchRestoration } from './restoration-watch.ts';

let store: TestStore;
let db: Database;
beforeEach(async () => {
  store = await testStore();
  db = store.db;
});
afterEach(() => store.close());

const open = () => db.query(`insert into restorations (sign, began_at) values ('backup_loaded', now())`);
const end = () => db.query('update restorations set ended_at = now()');

async function watch(queryable: Queryable = db) {
  const listeners: ((fact: Evidence) => void)[] = [];
  const historyListeners: ((change: HistoryChange) => void)[] = [];
  const errors: unknown[] = [];
  const ended = vi.fn();
  const restoration = await watchRestoration({
    db: queryable,
    clock: systemClock,
    tail: {
      subscribe(listener) {
        listeners.push(listener);
        return () => {};
      },
      whenHistoryChanged: (listener) => historyListeners.push(listener),
    },
    onError: (error) => errors.push(error),
  });
  restoration.whenEnded(ended);
  return {
    restoration,
    ended,
    errors,
    receive(kind: string) {
      for (const listener of listeners) listener({ kind } as Evidence);
    },
    changeHistory() {
      for (const listener of historyListeners) listener({} as HistoryChange);
    },
  };
}

test('reads at the start whether a restoration is open', async () => {
  expect((await watch()).restoration.isObserving()).toBe(false);
  await open();
  expect((await watch()).restoration.isObserving()).toBe(true);
  await end();
  expect((await watch()).restoration.isObserving()).toBe(false);
});

test('observes until the restoration has ended, and then calls back once', async () => {
  await open();
  const { restoration, ended, receive, errors } = await watch();
  ended.mockImplementation(() => expect(restoration.isObserving()).toBe(false));
  // A fact alone ends nothing.
  receive('restoration.ended');
  await end();
  receive('node.ready');
  expect(restoration.isObserving()).toBe(true);
  expect(ended).not.toHaveBeenCalled();
  receive('restoration.ended');
  receive('restoration.ended');
  await until('the end', () => ended.mock.calls.length > 0);
  expect(restoration.isObserving()).toBe(false);
  await db.query('select 1');
  expect(ended).toHaveBeenCalledTimes(1);
  expect(errors).toEqual([]);
});

test.each(['a fact', 'a failover'])('begins to observe if %s shows that the database was restored', async (sign) => {
  const { restoration, receive, changeHistory, ended } = await watch();
  await open();
  if (sign === 'a fact') receive('evidence.restored');
  else changeHistory();
  await until('the replica to observe', () => restoration.isObserving());
  expect(ended).not.toHaveBeenCalled();
});

test('reads again while the store is away', async () => {
  await open();
  let failures = 0;
  const { restoration, receive, errors } = await watch({
    ...db,
    query: (...config) => {
      if (failures-- > 0) throw new StoreUnavailable('away');
      return db.query(...config);
    },
  } as Queryable);
  await end();
  failures = 1;
  receive('restoration.ended');
  await until('the end', () => !restoration.isObserving());
  expect(errors).toEqual([]);
});
