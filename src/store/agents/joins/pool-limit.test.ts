/** Tests that concurrent joins stay within `max_nodes`, with few statements. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../../test/support/store.ts';
import { newCorrelationId, newTokenId } from '../../../base/ids.ts';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import { type Installation, openInstallation } from '../../keys/installation.ts';
import type { Database } from '../../pg/database.ts';
import { declarePool } from '../../rows/pools.ts';
import { createJoinToken } from '../../rows/tokens.ts';
import { type Fleet, testFleet } from '../../testing/fleet.ts';
import { register } from '../register.ts';

let store: TestStore;
let db: Database;
let fleet: Fleet;
let installation: Installation;

beforeAll(async () => {
  store = await testStore();
  db = store.db;
  fleet = await testFleet(db);
  installation = await openInstallation(db, fleet.now());
});
afterAll(() => store.close());

async function createPoolWithToken(name: string, max_nodes: number, max_uses: number | null = null): Promise<string> {
  await db.transaction((tx) => declarePool(tx, name, { name, driver: 'external', max_nodes }, fleet.now()));
  const token_id = newTokenId(fleet.clock);
  const token = { token_id, pool: name, expires_at: null, max_uses, created_at: fleet.now() };
  await createJoinToken(db, token, `swj_${token_id}`);
  return `swj_${token_id}`;
}

const join = (join_token: string, name: string, database: Database = db): Promise<string> => {
  const { clock, environment } = fleet;
  const context = { clock, now: fleet.now(), environment, installation, correlation_id: newCorrelationId() };
  return register(database, { version: '1.0', join_token, name }, undefined, context).then(
    () => 'joined',
    (error: unknown) => {
      if (error instanceof ApiProblem) return error.code;
      throw error;
    },
  );
};

const countAnswers = (answers: readonly string[]) =>
  Object.fromEntries([...Map.groupBy(answers, (answer) => answer)].map(([answer, all]) => [answer, all.length]));

test('refuses joins beyond max_nodes', async () => {
  const token = await createPoolWithToken('small', 2);
  expect([await join(token, 'a'), await join(token, 'b'), await join(token, 'c')]).toEqual([
    'joined',
    'joined',
    'pool_full',
  ]);
  expect(await join(token, 'a'), 'a known name takes no place').toBe('name_taken');
});

test('fills a pool exactly when a rack joins through two replicas at once', async () => {
  const token = await createPoolWithToken('rack', 30);
  // Each database object has its own batches, like a replica.
  const other: Database = { ...db };
  const answers = await Promise.all(
    Array.from({ length: 120 }, (_, place) => join(token, `rack-${place}`, place % 2 ? db : other)),
  );
  expect(countAnswers(answers)).toEqual({ joined: 30, pool_full: 90 });
  expect(await db.query(`select 1 from nodes where pool = 'rack'`)).toHaveLength(30);
});

test('known names and repeated names take no place in the pool', async () => {
  const token = await createPoolWithToken('mixed', 3);
  await join(token, 'here');
  const answers = await Promise.all(
    ['here', 'here', 'new-1', 'new-1', 'new-2', 'new-3'].map((name) => join(token, name)),
  );
  expect(countAnswers(answers)).toEqual({ joined: 2, name_taken: 3, pool_full: 1 });
});

test('needs less than one statement per machine for a mass join', async () => {
  const token = await createPoolWithToken('large', 10_000);
  let statements = 0;
  const countingDatabase = (): Database => ({
    ...db,
    transaction: (work) =>
      db.transaction((tx) =>
        work({
          ...tx,
          query: (...statement) => {
            statements++;
            return tx.query(...statement);
          },
        }),
      ),
  });
  const statementsFor = async (prefix: string, machines: number) => {
    statements = 0;
    const database = countingDatabase();
    await Promise.all(Array.from({ length: machines }, (_, place) => join(token, `${prefix}-${place}`, database)));
    return statements;
  };
  const few = await statementsFor('few', 100);
  const many = await statementsFor('many', 400);
  // A cost that grows with the square would be 16 times as high for four times the machines.
  expect(many / few).toBeLessThan(9);
  expect(many).toBeLessThan(400);
});
