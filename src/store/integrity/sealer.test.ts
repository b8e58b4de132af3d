/**
 * Each row is sealed once, even with concurrent writers, several replicas and slow transactions.
 */
import { randomInt } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { now, type SealedStore, sealedStore } from '../../../test/support/sealed-store.ts';
import { recordEvidence } from '../evidence/evidence.ts';
import { createSealer, maxBatchRows } from './sealer.ts';

let store: SealedStore;

beforeAll(async () => {
  store = await sealedStore();
});
afterAll(() => store?.close());

const fact = (summary: string) => ({ at: now, layer: 'rule' as const, kind: 'brake.held' as const, summary });
const countEvidence = async () =>
  Number((await store.dba.query<{ count: string }>('select count(*) from evidence'))[0]?.count);

test('seals existing rows in batches of at most maxBatchRows', async () => {
  await recordEvidence(
    store.db,
    Array.from({ length: 2 * maxBatchRows + 7 }, (_, i) => fact(`old ${i}`)),
  );
  expect(await store.sealAll()).toBe(2 * maxBatchRows + 7);
  const batches = await store.dba.query<{ rows: number }>(
    `select octet_length(entries) / 56 as rows from evidence_segments order by checkpoint`,
  );
  expect(batches.map(({ rows }) => rows)).toEqual([maxBatchRows, maxBatchRows, 7]);
  expect(await store.verify()).toMatchObject({ rows: 2 * maxBatchRows + 7, faults: [], unsealed: 0 });
});

test('two concurrent replicas seal every row once, including rows of a slow transaction', async () => {
  const other = createSealer({ db: store.db, key_ring: store.ring, installation: { installation_id: 'slipway-test' } });
  const { promise: finish, resolve: commit } = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  // This transaction gets its id before the others and commits after them.
  const slow = store.db.transaction(async (tx) => {
    // On a busy machine the writers take longer than a transaction may be idle.
    await tx.query('set local idle_in_transaction_session_timeout = 0');
    await recordEvidence(tx, [fact('slow, first')]);
    begun.resolve();
    await finish;
    await recordEvidence(tx, [fact('slow, last')]);
  });
  await begun.promise;
  const writers = Array.from({ length: 4 }, async (_, writer) => {
    for (let each = 0; each < 20; each++) await recordEvidence(store.db, [fact(`${writer} ${each}`)]);
  });
  const sealers = [store.sealer, other].map(async (sealer) => {
    for (let each = 0; each < 20; each++) await sealer.sealBatch(now);
  });
  await Promise.all([...writers, ...sealers]);
  commit();
  await slow;
  await store.sealAll();
  expect(await store.verify()).toMatchObject({ rows: await countEvidence(), faults: [], unsealed: 0 });
});

test('seals all rows of a cursor that has more rows than a batch', async () => {
  await store.sealAll();
  const [cursor] = await store.facts(1);
  await store.dba.query(
    `insert into evidence (xid, seq, at, layer, kind, summary)
     select xid, seq, at, layer, kind, 'copy ' || n
     from evidence, generate_series(1, $2) n
     where xid || '-' || seq = $1`,
    [cursor, 2 * maxBatchRows],
  );
  await store.facts(1);
  expect(await store.sealAll()).toBe(2 * maxBatchRows + 2);
  expect(await store.verify()).toMatchObject({ rows: await countEvidence(), faults: [], unsealed: 0 });
});

test('writes no checkpoint if there are no new rows', async () => {
  await store.sealAll();
  const positions = () => store.dba.query('select position from evidence_checkpoints');
  const before = (await positions()).length;
  expect(await store.sealer.sealBatch(now)).toEqual({ rows: 0, more: false });
  expect(await positions()).toHaveLength(before);
});

test('names every row that was randomly deleted, changed or inserted', async () => {
  for (let round = 0; round < 6; round++) {
    const cursors = await store.facts(12, round % 2 === 0 ? 'rule' : 'node');
    await store.sealAll();
    const partition = round % 2 === 0 ? 'rule' : 'node';
    const isRow = (cursor: string) => `xid || '-' || seq = '${cursor}'`;
    const expected: string[] = [];
    await store.dba.query('drop table if exists spare; create table spare as select * from evidence');
    for (const cursor of cursors) {
      const act = randomInt(4);
      if (act === 0) {
        await store.dba.query(`delete from evidence where ${isRow(cursor)}`);
        expected.push(`row_deleted ${partition} ${cursor}`);
      } else if (act === 1) {
        await store.dba.query(`update evidence set data = data || '{"forged": true}' where ${isRow(cursor)}`);
        expected.push(`row_changed ${partition} ${cursor}`);
      } else if (act === 2) {
        await store.dba.query(
          `insert into evidence (xid, seq, at, layer, kind, summary)
           select xid, seq, at, 'api', 'request.served', 'forged' from evidence where ${isRow(cursor)}`,
        );
        expected.push(`row_inserted api ${cursor}`);
      }
    }
    const { faults } = await store.verify();
    expect(faults.map(({ code, partition: where, cursor }) => `${code} ${where} ${cursor}`).sort()).toEqual(
      expected.sort(),
    );
    await store.dba.query('delete from evidence; insert into evidence select * from spare');
    expect((await store.verify()).faults).toEqual([]);
  }
});

test('counts 25,000 inserted rows, and still names a row that was deleted among them', async () => {
  const [first, second] = await store.facts(3);
  await store.sealAll();
  const place = `from evidence where xid || '-' || seq = '${second}'`;
  await store.dba.query(
    `insert into evidence (xid, seq, at, layer, kind, summary)
     select xid, -n, at, 'rule', 'request.served', 'flood' from generate_series(1, 25000) n, (select * ${place}) row`,
  );
  await store.dba.query(`delete from evidence where xid || '-' || seq = '${first}'`);
  const { faults, more_faults } = await store.verify();
  expect(faults.map(({ code, cursor }) => ({ code, cursor }))).toEqual([{ code: 'row_deleted', cursor: first }]);
  expect(more_faults).toBeGreaterThan(20_000);
});
