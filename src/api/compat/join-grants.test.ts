/** Tests when a cached join token is read again. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { moment } from '../../base/clock.ts';
import { hashSecret } from '../../base/credentials/random-secret.ts';
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { declarePool } from '../../store/rows/pools.ts';
import { createJoinGrants, type JoinGrants } from './join-grants.ts';

const now = moment(Date.parse('2026-03-01T10:00:00Z'));
let store: TestStore;
let grants: JoinGrants;
let observe: (fact: Evidence) => void;
let changeHistory: () => void;

beforeAll(async () => {
  store = await testStore();
  await store.db.transaction((tx) => declarePool(tx, 'gpu', { driver: 'external' }, now));
});
afterAll(() => store.close());
beforeEach(async () => {
  await store.db.query('delete from join_tokens');
  await store.db.query(
    `insert into join_tokens (token_id, pool, secret_hash, created_at) values ('tok_1', 'gpu', $1, $2)`,
    [hashSecret('secret'), now],
  );
  grants = createJoinGrants(store.db, {
    subscribe(listener) {
      observe = listener;
      return () => true;
    },
    whenHistoryChanged(listener) {
      changeHistory = () => listener({} as Parameters<typeof listener>[0]);
    },
  });
});

const stateOf = async () => (await grants.find('secret', now))?.state;

test('a token is read once, until the history of the database changes', async () => {
  expect(await stateOf()).toBe('valid');
  await store.db.query('delete from join_tokens');
  expect(await stateOf()).toBe('valid');
  changeHistory();
  expect(await stateOf()).toBeUndefined();
});

test('a row read while the history changes is not cached', async () => {
  const reading = stateOf();
  changeHistory();
  expect(await reading).toBe('valid');
  await store.db.query(`update join_tokens set revoked_at = $1`, [now]);
  expect(await stateOf()).toBe('revoked');
});

test('a cached token is refused after its revocation', async () => {
  expect(await stateOf()).toBe('valid');
  observe({ kind: 'join_token.revoked', data: { token_id: 'tok_1' }, at: now.toISOString() } as unknown as Evidence);
  expect(await stateOf()).toBe('revoked');
});
