/** Secrets are encrypted with a key outside the database, bound to their names, and rotated. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../../test/support/store.ts';
import { moment } from '../../../base/clock.ts';
import type { KeyRing, RingKey } from '../../../base/credentials/key-ring.ts';
import { createRedactor, redactionMark } from '../../../base/redaction/redact.ts';
import { printedForms } from './known-values.ts';
import { createPoolRedactors } from './pool-redactors.ts';
import { openSecret, sealSecret } from './seal.ts';
import { deleteSecret, putSecret, readSecrets, rotateSecrets, type SecretRow } from './secrets.ts';

let store: TestStore;
beforeAll(async () => {
  store = await testStore();
});
afterAll(() => store.close());

const key = (kid: string): RingKey => ({ kid, created_at: '2030-01-01T00:00:00.000Z', secret: randomBytes(32) });
const ringOf = (...keys: [RingKey, ...RingKey[]]): KeyRing => ({
  path: '/keys.json',
  current: keys[0],
  all: keys,
  byId: (kid) => keys.find((each) => each.kid === kid),
});
const at = moment(1_900_000_000_000);

const put = (ring: KeyRing, name: string, value: string): Promise<SecretRow> =>
  store.db.transaction((tx) => putSecret(tx, ring, name, value, at));
const readStored = async (name: string): Promise<SecretRow> => {
  const [row] = await readSecrets(store.db, [name]);
  if (!row) throw new Error(`${name} is not stored`);
  return row;
};

test('only a server with the key can decrypt a value', async () => {
  const ring = ringOf(key('one'));
  await put(ring, 'db', 'correct horse');
  const row = await readStored('db');
  expect(row.sealed.toString('latin1')).not.toContain('correct');
  expect(openSecret(ring, row)).toEqual({ ok: true, value: 'correct horse' });
  expect(openSecret(ringOf(key('two')), row)).toEqual({ ok: false, why: 'key_missing' });
  expect(openSecret(ringOf(key('one')), row)).toEqual({ ok: false, why: 'damaged' });
});

test('does not decrypt a row that was copied under another name or changed', () => {
  const ring = ringOf(key('one'));
  const sealed = sealSecret(ring, 'mine', 'correct horse');
  expect(openSecret(ring, { ...sealed, name: 'yours' })).toEqual({ ok: false, why: 'damaged' });
  const changed = Buffer.from(sealed.sealed);
  changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
  expect(openSecret(ring, { ...sealed, sealed: changed })).toEqual({ ok: false, why: 'damaged' });
  expect(openSecret(ring, { ...sealed, sealed: Buffer.alloc(3) })).toEqual({ ok: false, why: 'damaged' });
});

test('encrypts the same value differently each time', () => {
  const ring = ringOf(key('one'));
  expect(sealSecret(ring, 'a', 'correct horse').sealed.equals(sealSecret(ring, 'a', 'correct horse').sealed)).toBe(
    false,
  );
});

test('a new value increments the version', async () => {
  const ring = ringOf(key('one'));
  expect(await put(ring, 'counted', 'first value')).toMatchObject({ version: 1 });
  expect(await put(ring, 'counted', 'second value')).toMatchObject({ version: 2 });
  expect(openSecret(ring, await readStored('counted'))).toEqual({ ok: true, value: 'second value' });
});

test('rotation encrypts readable secrets with the current key, and returns the unreadable ones', async () => {
  await store.db.query('delete from secrets');
  const [old, fresh, foreign] = [key('old'), key('fresh'), key('foreign')];
  await put(ringOf(old), 'moved', 'correct horse');
  await put(ringOf(foreign), 'foreign', 'battery staple');
  const ring = ringOf(fresh, old);
  const rotate = () => store.db.transaction((tx) => rotateSecrets(tx, ring));
  expect(await rotate()).toEqual({ rotated: 1, unreadable: ['foreign'] });
  expect(await readStored('moved')).toMatchObject({ kid: 'fresh', version: 1 });
  expect(openSecret(ringOf(fresh), await readStored('moved'))).toEqual({ ok: true, value: 'correct horse' });
  expect(openSecret(ringOf(foreign), await readStored('foreign'))).toMatchObject({ ok: true });
  expect(await rotate()).toEqual({ rotated: 0, unreadable: ['foreign'] });
});

test('deletes a secret, and returns false if it is not stored', async () => {
  await put(ringOf(key('one')), 'gone', 'correct horse');
  expect(await store.db.transaction((tx) => deleteSecret(tx, 'gone'))).toBe(true);
  expect(await store.db.transaction((tx) => deleteSecret(tx, 'gone'))).toBe(false);
  expect(await readSecrets(store.db, ['gone'])).toEqual([]);
});

test('redacts only secrets of the own pool, and loads all pools for an unknown one', async () => {
  const allSecrets = createRedactor();
  allSecrets.learn(['mine~quartz~meadow', 'theirs~plum~harbor']);
  const listed = new Map([['mine', ['mine~quartz~meadow']]]);
  let loads = 0;
  const pools = createPoolRedactors(allSecrets, async () => {
    loads += 1;
    for (const [pool, literals] of listed) pools.learn(pool, literals);
  });
  const redact = async (pool: string) => (await pools.of(pool)).text('mine~quartz~meadow theirs~plum~harbor');
  expect(await redact('mine')).toBe(`${redactionMark} theirs~plum~harbor`);
  expect(await redact('deleted')).toBe(`${redactionMark} ${redactionMark}`);
  await redact('deleted');
  expect(loads).toBe(2);
  pools.learn('none', []);
  expect(await redact('none')).toBe('mine~quartz~meadow theirs~plum~harbor');
  pools.learn('none', ['theirs~plum~harbor']);
  expect(await redact('none')).toBe(`mine~quartz~meadow ${redactionMark}`);
  pools.forget();
  listed.clear();
  expect(await redact('none')).toBe(`${redactionMark} ${redactionMark}`);
});

test('redacts each long line of a multi-line value', () => {
  const redactor = createRedactor();
  redactor.learn(printedForms('first long line\nshort\nsecond "long" line'));
  expect(redactor.text('saw first long line here')).toBe(`saw ${redactionMark} here`);
  expect(redactor.json(JSON.stringify({ line: 'second "long" line' }))).toBe(`{"line":"${redactionMark}"}`);
  expect(redactor.text('short')).toBe('short');
});
