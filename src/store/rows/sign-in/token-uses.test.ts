/** The last use of a token is written once a minute, batched. The latest of all replicas wins. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { testDatabase } from '../../../../test/support/database.ts';
import { until } from '../../../../test/support/until.ts';
import { moment } from '../../../base/clock.ts';
import { newTokenId } from '../../../base/ids.ts';
import { virtualClock } from '../../../base/virtual-clock.ts';
import { type Database, openDatabase, type Queryable } from '../../pg/database.ts';
import { createToken, listTokens } from '../tokens.ts';
import { createTokenUses } from './token-uses.ts';

let db: Database;
let drop: () => Promise<void>;
let clock: ReturnType<typeof virtualClock>;
let failures: unknown[];
beforeEach(async () => {
  const database = await testDatabase();
  drop = database.drop;
  db = openDatabase({ url: database.url });
  clock = virtualClock();
  failures = [];
});
afterEach(async () => {
  await db.close();
  await drop();
});

/** A database that counts statements, and rejects them while `fails` is set. */
function countingDatabase() {
  const count = { statements: 0, fails: false };
  const query: Queryable['query'] = (...args) => {
    count.statements += 1;
    return count.fails ? Promise.reject(new Error('the store is unavailable')) : db.query(...args);
  };
  return { count, db: { ...db, query } as Queryable };
}
const createUses = (on: Queryable = db) => createTokenUses(on, clock, (error) => failures.push(error));

async function addToken(name: string): Promise<string> {
  const token_id = newTokenId(clock);
  const fresh = {
    token_id,
    name,
    role: 'viewer',
    tenant: null,
    pool: null,
    created_at: moment(clock.nowMs()),
  } as const;
  await createToken(db, { ...fresh, expires_at: null }, `swt_${token_id}`);
  return token_id;
}
const readLastUses = async () =>
  Object.fromEntries((await listTokens(db)).map((each) => [each.name, each.last_used_at]));
const timeAfter = (seconds: number) => moment(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();

test('writes many uses within a minute in one statement', async () => {
  const [one, two] = [await addToken('one'), await addToken('two')];
  await addToken('idle');
  const { count, db: counting } = countingDatabase();
  const uses = createUses(counting);
  for (const id of [one, two, one, two, one]) uses.note(id);
  expect(count.statements, 'no request waits for a write').toBe(0);
  await clock.advance(1_000);
  await until('the write', async () => (await readLastUses()).two !== null);
  expect(await readLastUses()).toEqual({ one: timeAfter(0), two: timeAfter(0), idle: null });
  await clock.advance(58_000);
  uses.note(one);
  await clock.advance(1_000);
  expect(count.statements).toBe(1);
  uses.note(one);
  await uses.stop();
  expect(count.statements).toBe(2);
  expect(await readLastUses()).toEqual({ one: timeAfter(60), two: timeAfter(0), idle: null });
  expect(failures).toEqual([]);
});

test('writes pending uses on stop', async () => {
  const id = await addToken('one');
  const uses = createUses();
  uses.note(id);
  await uses.stop();
  expect(await readLastUses()).toEqual({ one: timeAfter(0) });
  expect(clock.pendingTimers()).toBe(0);
});

test('keeps the latest use of two replicas, even if it is written first', async () => {
  const id = await addToken('one');
  const [early, late] = [createUses(), createUses()];
  early.note(id);
  await clock.advance(500);
  late.note(id);
  await late.stop();
  await early.stop();
  expect(await readLastUses()).toEqual({ one: timeAfter(0.5) });
});

test('reports a failed write, and retries with the next use', async () => {
  const id = await addToken('one');
  const { count, db: counting } = countingDatabase();
  const uses = createUses(counting);
  count.fails = true;
  uses.note(id);
  await uses.stop();
  expect(failures).toHaveLength(1);
  count.fails = false;
  uses.note(id);
  await uses.stop();
  expect(await readLastUses()).toEqual({ one: timeAfter(0) });
});
