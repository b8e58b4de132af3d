/**
 * The seal check of single rows verifies each checkpoint once for all its rows and layers.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SealedStore, sealedStore } from '../../../test/support/sealed-store.ts';
import type { RowText } from '../../contract/evidence/integrity/row-hash.ts';
import { rowTextColumns } from './row-text.ts';
import { checkSeals } from './sealed-rows.ts';
import type { EvidenceSigner } from './signer.ts';

let store: SealedStore;

beforeAll(async () => {
  store = await sealedStore();
});
afterAll(() => store?.close());

const readRowsAt = (cursors: readonly string[]): Promise<RowText[]> =>
  store.db.query<RowText>(
    `select ${rowTextColumns} from evidence where xid::text || '-' || seq = any($1) order by evidence.xid, evidence.seq`,
    [cursors],
  );

/** Counts how often a public key is used to verify a signature. */
function countingSigner(): EvidenceSigner & { verified: number } {
  const counting = {
    ...store.signer,
    verified: 0,
    byId(kid: string) {
      const key = store.signer.byId(kid);
      return (
        key && {
          ...key,
          get public_key() {
            counting.verified++;
            return key.public_key;
          },
        }
      );
    },
  };
  return counting;
}

test('verifies one checkpoint once for rows of two layers, and returns the number of each row', async () => {
  const rule = await store.facts(3);
  const node = await store.facts(2, 'node');
  await store.sealAll();
  const rows = await readRowsAt([...rule, ...node]);
  const signer = countingSigner();
  const checks = await checkSeals(store.db, signer, rows);
  const places = checks.map((check) => (check.state === 'intact' ? check.place : undefined));
  expect(places.map((place) => place?.row)).toEqual([1, 2, 3, 1, 2]);
  expect(new Set(places.map((place) => place?.checkpoint)).size).toBe(1);
  expect(signer.verified).toBe(1);
});

test('returns changed, key_missing or unsealed for a row that is not intact', async () => {
  const [cursor = ''] = await store.facts(1);
  await store.sealAll();
  const [row] = await readRowsAt([cursor]);
  if (!row) throw new Error('the row is gone');
  expect(await checkSeals(store.db, store.signer, [{ ...row, summary: 'forged' }, row])).toMatchObject([
    { state: 'changed' },
    { state: 'intact' },
  ]);
  const { kid } = store.signer.current();
  const withoutKey = { ...store.signer, byId: () => undefined };
  expect(await checkSeals(store.db, withoutKey, [row])).toEqual([{ state: 'key_missing', kid }]);
  const [unsealed = ''] = await store.facts(1);
  expect(await checkSeals(store.db, store.signer, await readRowsAt([unsealed]))).toEqual([{ state: 'unsealed' }]);
  await store.sealAll();
});

test('returns changed for a row whose checkpoint signature or sealed list was changed', async () => {
  const [cursor = ''] = await store.facts(1);
  await store.sealAll();
  const rows = await readRowsAt([cursor]);
  const newest = '(select max(checkpoint) from evidence_segments)';
  const stateAfter = async (change: string, undo: string): Promise<string | undefined> => {
    await store.dba.query(change);
    const [check] = await checkSeals(store.db, store.signer, rows);
    await store.dba.query(undo);
    return check?.state;
  };
  const flip = (table: string, column: string, key: string) =>
    `update ${table} set ${column} = set_byte(${column}, 30, 255 - get_byte(${column}, 30)) where ${key} = ${newest}`;
  const signature = flip('evidence_checkpoints', 'signature', 'position');
  const list = flip('evidence_segments', 'entries', 'checkpoint');
  expect(await stateAfter(signature, signature)).toBe('changed');
  expect(await stateAfter(list, list)).toBe('changed');
  expect(await checkSeals(store.db, store.signer, rows)).toMatchObject([{ state: 'intact' }]);
});
