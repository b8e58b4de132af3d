/** Tests the public answer and the log lines of the readiness check. */
import { expect, onTestFinished, test } from 'vitest';
import { virtualClock } from '../base/virtual-clock.ts';
import { watchStore } from '../store/pg/connections/store-watch.ts';
import { openDatabase } from '../store/pg/database.ts';
import { storeReadiness } from './open-store.ts';

test('a refused connection: answers unavailable without the address, logs the error at most every 10 s', async () => {
  const clock = virtualClock();
  const watch = watchStore({ clock });
  const db = openDatabase({ url: 'postgres://somebody@127.0.0.1:1/nothing', watch });
  onTestFinished(async () => {
    watch.stop();
    await db.close();
  });
  const logged: string[] = [];
  const warn = ({ error }: { error: Error }) => void logged.push(error.message);
  const check = storeReadiness({ db, watch, clock }, { warn } as never);
  const unavailable = { ok: false, state: 'unavailable', detail: 'connection failed' };
  expect(await check()).toEqual(unavailable);
  expect(await check()).toEqual(unavailable);
  expect(logged).toEqual([expect.stringContaining('127.0.0.1:1')]);
  await clock.advance(10_000);
  expect(await check()).toEqual(unavailable);
  expect(logged).toHaveLength(2);
});
